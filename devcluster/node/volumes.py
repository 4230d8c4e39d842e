"""The volumes of a pod: directories that its containers mount. Filled once, not updated later."""

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from devcluster.controlplane.kubeapi import Json, KubeApi
from devcluster.node import downward_api
from devcluster.node.launch import Mount
from disttest_operator.core.api.api_errors import ApiServerError, ForbiddenError, NotFoundError

KINDS = {"configMap": "configmaps", "secret": "secrets"}  # by the field that refers to one; it may end in Ref or KeyRef
TOKEN_SECONDS = 3600


class MissingObjectError(Exception):
    """An object that the pod names does not exist (yet)."""


class PodObjects:
    def __init__(self, api: KubeApi, pod: Json) -> None:
        self._api = api
        self._meta = pod["metadata"]
        self._account: str = pod["spec"].get("serviceAccountName", "default")
        self._namespace = f"/api/v1/namespaces/{self._meta['namespace']}"

    async def data(self, kind: str, ref: Json) -> Mapping[str, bytes]:
        """Return the data of an object; empty if it is optional and missing."""
        name = ref.get("secretName") or ref["name"]
        try:
            found = await self._api.request("GET", f"{self._namespace}/{kind}/{name}")
        except (ForbiddenError, NotFoundError) as error:  # the node authorizer forbids what does not exist for the pod
            if ref.get("optional"):
                return {}
            raise MissingObjectError(f'{kind.removesuffix("s")} "{name}" not found') from error
        except ApiServerError as error:
            raise MissingObjectError(str(error)) from error
        plain = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        if kind == "secrets":
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
            answer = await self._api.request("POST", f"{self._namespace}/serviceaccounts/{self._account}/token", body)
        except ApiServerError as error:
            raise MissingObjectError(f"no token of ServiceAccount {self._account!r}: {error}") from error
        token: str = answer["status"]["token"]
        return token

    async def claimed_path(self, claim: str) -> str:
        """Return the directory of a bound claim, whose volume must be hostPath or local."""
        try:
            found = await self._api.request("GET", f"{self._namespace}/persistentvolumeclaims/{claim}")
            volume = await self._api.request("GET", f"/api/v1/persistentvolumes/{found['spec'].get('volumeName', '')}")
        except ApiServerError as error:
            raise MissingObjectError(f"persistentvolumeclaim {claim!r} is not there or not bound: {error}") from error
        source = volume["spec"].get("hostPath") or volume["spec"].get("local")
        if not source:
            raise MissingObjectError(f"the volume of persistentvolumeclaim {claim!r} is neither hostPath nor local")
        path: str = source["path"]
        return path


class Volumes:
    def __init__(self, pod: Json, directory: Path, known_by_node: Mapping[str, str], objects: PodObjects) -> None:
        self._pod = pod
        self._directory = directory
        self._known_by_node = known_by_node
        self._objects = objects
        self._places: dict[str, Path] = {}

    async def create(self) -> None:
        """Create missing volumes that a container mounts; raise MissingObjectError if one names a missing object."""
        spec = self._pod["spec"]
        containers = [*(spec.get("initContainers") or []), *spec["containers"]]
        mounted = {mount["name"] for one in containers for mount in one.get("volumeMounts") or []}
        for volume in spec.get("volumes") or []:
            if volume["name"] in mounted - self._places.keys():
                self._places[volume["name"]] = await self._create(volume)

    async def _create(self, volume: Json) -> Path:
        if host := volume.get("hostPath"):
            return Path(host["path"])
        if claim := volume.get("persistentVolumeClaim"):
            return Path(await self._objects.claimed_path(claim["claimName"]))
        files: dict[str, bytes] = {}
        for source in (volume.get("projected") or {}).get("sources") or [volume]:
            files.update(await self._files(source))
        place = self._directory / str(volume["name"])
        place.mkdir(parents=True)
        place.chmod(0o777)
        if (volume.get("emptyDir") or {}).get("medium") == "Memory":
            _mount_memory(place, volume["emptyDir"].get("sizeLimit"))
        for path, content in files.items():
            file = place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return place

    async def _files(self, source: Json) -> Mapping[str, bytes]:
        if token := source.get("serviceAccountToken"):
            return {token["path"]: (await self._objects.token(token)).encode()}
        if downward := source.get("downwardAPI"):
            items, known = downward.get("items") or [], self._known_by_node
            return {item["path"]: downward_api.value(self._pod, {}, item, known).encode() for item in items}
        for field, kind in KINDS.items():
            if ref := source.get(field):
                return await self._data(kind, ref)
        return {}

    async def _data(self, kind: str, ref: Json) -> Mapping[str, bytes]:
        data = await self._objects.data(kind, ref)
        if not ref.get("items"):
            return data
        missing = [item["key"] for item in ref["items"] if item["key"] not in data]
        if missing and not ref.get("optional"):
            name = ref.get("secretName") or ref["name"]
            raise MissingObjectError(f"{kind} {name!r} has no key {', '.join(missing)}")
        return {item["path"]: data[item["key"]] for item in ref["items"] if item["key"] in data}

    def mounts(self, container: Json) -> list[Mount]:
        """Return the mounts, outer directories first."""
        wanted = sorted(container.get("volumeMounts") or [], key=lambda mount: str(mount["mountPath"]))
        return [self._mount(mount) for mount in wanted]

    def _mount(self, mount: Json) -> Mount:
        source = self._places[mount["name"]]
        if below := mount.get("subPath"):
            source = source / os.path.normpath("/" + below).lstrip("/")
            if not source.exists():
                source.mkdir(parents=True)
        return Mount(source=str(source), target=mount["mountPath"], read_only=mount.get("readOnly", False))

    def remove(self) -> None:
        for place in self._directory.iterdir() if self._directory.exists() else ():
            if place.is_mount():
                subprocess.run(["umount", "--lazy", place], check=True)


def _mount_memory(place: Path, limit: str | None) -> None:
    options = "mode=1777" + (f",size={downward_api.parse_quantity(limit)}" if limit else "")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
