"""The volumes of a pod: directories that its containers mount. Filled once, not updated later."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from devcluster.kubeapi import Json
from devcluster.node import fields, quantity
from devcluster.node.launch import Mount
from devcluster.node.objects import CONFIG_MAPS, SECRETS, MissingError, Objects


class Volumes:
    def __init__(self, pod: Json, directory: Path, known_by_node: Mapping[str, str], objects: Objects) -> None:
        self._pod = pod
        self._directory = directory
        self._known_by_node = known_by_node
        self._objects = objects
        self._places: dict[str, Path] = {}

    async def create(self) -> None:
        """Makes those that are still missing; raises MissingError where one names what does not exist."""
        for volume in self._pod["spec"].get("volumes") or []:
            if volume["name"] not in self._places:
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
            return {item["path"]: self._own_field(item).encode() for item in downward.get("items") or []}
        if ref := source.get("configMap"):
            return await self._data(CONFIG_MAPS, ref["name"], ref)
        if ref := source.get("secret"):
            return await self._data(SECRETS, ref.get("secretName") or ref["name"], ref)
        return {}

    def _own_field(self, item: Json) -> str:
        if ref := item.get("fieldRef"):
            return fields.field(self._pod, ref["fieldPath"], self._known_by_node)
        return fields.resource(self._pod["spec"]["containers"], {}, item["resourceFieldRef"])

    async def _data(self, kind: str, name: str, ref: Json) -> Mapping[str, bytes]:
        optional = ref.get("optional", False)
        data = await self._objects.data(kind, name, optional=optional)
        if not ref.get("items"):
            return data
        missing = [item["key"] for item in ref["items"] if item["key"] not in data]
        if missing and not optional:
            raise MissingError(f"{kind} {name!r} has no key {', '.join(missing)}")
        return {item["path"]: data[item["key"]] for item in ref["items"] if item["key"] in data}

    def mounts(self, container: Json) -> list[Mount]:
        """Outer directories first."""
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
    options = "mode=1777" + (f",size={quantity.parse(limit)}" if limit else "")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
