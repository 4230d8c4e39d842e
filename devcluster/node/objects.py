"""ConfigMaps, Secrets and tokens of one pod, read with the rights of its node."""

import base64
from collections.abc import Mapping

from devcluster.kubeapi import UNREACHABLE, ApiError, Json, KubeApi

CONFIG_MAPS, SECRETS = "configmaps", "secrets"
TOKEN_SECONDS = 3600


class MissingError(Exception):
    """Something that the pod names does not exist (yet)."""


class Objects:
    def __init__(self, api: KubeApi, pod: Json) -> None:
        self._api = api
        self._meta = pod["metadata"]
        self._account: str = pod["spec"].get("serviceAccountName", "default")
        self._namespace = f"/api/v1/namespaces/{self._meta['namespace']}"

    async def _request(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            return await self._api.request(method, path, body)
        except UNREACHABLE as error:  # it will come back; the pod waits as for an object
            raise MissingError(f"the API server cannot be reached: {error!r}") from error

    async def data(self, kind: str, name: str, *, optional: bool = False) -> Mapping[str, bytes]:
        try:
            found = await self._request("GET", f"{self._namespace}/{kind}/{name}")
        except ApiError as error:
            if error.status not in (403, 404):  # the node authorizer forbids what does not exist for the pod
                raise MissingError(str(error)) from error
            if optional:
                return {}
            raise MissingError(f'{kind.removesuffix("s")} "{name}" not found') from error
        plain = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        if kind == SECRETS:
            return {key: base64.b64decode(value) for key, value in plain.items()}
        binary = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
        return {**plain, **binary}

    async def token(self, wanted: Json) -> str:
        bound = {"kind": "Pod", "apiVersion": "v1", "name": self._meta["name"], "uid": self._meta["uid"]}
        spec = {"expirationSeconds": wanted.get("expirationSeconds", TOKEN_SECONDS), "boundObjectRef": bound}
        if wanted.get("audience"):
            spec["audiences"] = [wanted["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = await self._request("POST", f"{self._namespace}/serviceaccounts/{self._account}/token", body)
        except ApiError as error:
            raise MissingError(f"no token of ServiceAccount {self._account!r}: {error}") from error
        token: str = answer["status"]["token"]
        return token

    async def claimed_path(self, claim: str) -> str:
        """The directory of a bound claim, whose volume must be one of hostPath or local."""
        try:
            found = await self._request("GET", f"{self._namespace}/persistentvolumeclaims/{claim}")
            volume = await self._request("GET", f"/api/v1/persistentvolumes/{found['spec'].get('volumeName', '')}")
        except ApiError as error:
            raise MissingError(f"persistentvolumeclaim {claim!r} is not there or not bound") from error
        source = volume["spec"].get("hostPath") or volume["spec"].get("local")
        if not source:
            raise MissingError(f"the volume of persistentvolumeclaim {claim!r} is neither hostPath nor local")
        path: str = source["path"]
        return path
