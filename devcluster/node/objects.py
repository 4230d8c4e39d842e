"""ConfigMaps, Secrets and tokens of one pod, read with the rights of its node."""

import base64
from collections.abc import Mapping

from devcluster.kubeapi import ApiError, Json, KubeApi

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

    async def data(self, kind: str, name: str, *, optional: bool = False) -> Mapping[str, bytes]:
        try:
            found = await self._api.get(f"{self._namespace}/{kind}/{name}")
        except ApiError as error:
            if error.status not in (403, 404):  # the node authorizer forbids what does not exist for the pod
                raise
            if optional:
                return {}
            raise MissingError(f"{kind} {name!r} not found") from error
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
        answer = await self._api.request("POST", f"{self._namespace}/serviceaccounts/{self._account}/token", body)
        token: str = answer["status"]["token"]
        return token

    async def claimed_path(self, claim: str) -> str:
        """The directory of a bound claim, whose volume must be one of hostPath or local."""
        try:
            found = await self._api.get(f"{self._namespace}/persistentvolumeclaims/{claim}")
            volume = await self._api.get(f"/api/v1/persistentvolumes/{found['spec'].get('volumeName', '')}")
        except ApiError as error:
            raise MissingError(f"persistentvolumeclaim {claim!r} is not there or not bound") from error
        source = volume["spec"].get("hostPath") or volume["spec"].get("local")
        if not source:
            raise MissingError(f"the volume of persistentvolumeclaim {claim!r} is neither hostPath nor local")
        path: str = source["path"]
        return path
