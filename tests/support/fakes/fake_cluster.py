"""A cluster in memory: objects with uid and resourceVersion, guarded writes, and a power cut where a test wants one."""

import asyncio
import copy
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from disttest_operator.core.api.api_errors import AlreadyExistsError, ApiServerError, ConflictError, RequestRefusedError
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import Page

Where = tuple[Kind, str, str]


class PowerCut(BaseException):
    """The operator dies here. Not an Exception: nothing may catch it."""


class FakeCluster:
    """`done` lists what was written. The power fails after `cut` writes; n + 0.5 is just before the next."""

    server_time: datetime | None = None

    def __init__(self) -> None:
        self.objects: dict[Where, dict[str, Any]] = {}
        self.done: list[str] = []
        self.reads: list[str] = []
        self.logs: dict[str, str] = {}
        self.broken_logs = 0  # so many reads of a log fail
        self.refuses: set[Kind] = set()  # to create
        self.refuses_patches: set[Kind] = set()
        self.refuses_lists: set[Kind] = set()  # no right to
        self.refuses_in_status: set[str] = set()  # fields
        self.prunes_in_status: set[str] = set()  # fields of a newer CRD
        self.statuses_refused: list[set[str]] = []  # fields that were sent for an older version
        self.statuses: list[Mapping[str, Any]] = []  # patches of runs, as they were sent
        self.is_away = False  # no request is answered
        self.cut: float | None = None
        self.gap = asyncio.Event()
        self._versions = itertools.count(100)

    def put(self, kind: Kind, body: Mapping[str, Any]) -> Body:
        """As another client does."""
        stored = copy.deepcopy(dict(body))
        version = next(self._versions)
        meta = stored["metadata"]
        meta.setdefault("uid", f"uid-{version}")
        meta.setdefault("creationTimestamp", "2026-11-21T02:00:01Z")
        meta["resourceVersion"] = str(version)
        before = self.objects.get((kind, meta.get("namespace", ""), meta["name"]))
        if before and "generation" in meta and before.get("spec") != stored.get("spec"):
            meta["generation"] += 1
        self.objects[kind, meta.get("namespace", ""), meta["name"]] = stored
        return copy.deepcopy(stored)

    async def get(self, kind: Kind, namespace: str, name: str, *, only_metadata: bool = False) -> Body | None:
        self._answer()
        self.reads.append(f"get {kind.resource} {name}")
        found = copy.deepcopy(self.objects.get((kind, namespace, name)))
        return {"metadata": found["metadata"]} if found and only_metadata else found

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",  # of equalities; every object here is ours
        field_selector: str = "",
    ) -> list[Body]:
        self.reads.append(f"list {kind.resource}")
        if kind in self.refuses_lists:
            raise RequestRefusedError(f"GET /{kind.resource}: 403 forbidden")
        where = (kind, namespace)
        found: list[Body] = [
            body for key, body in self.objects.items() if key[:2] == where or (key[0] is kind and not namespace)
        ]
        if kind is Kind.NODE and label_selector:  # all other objects here are ours
            found = [body for body in found if label_selector in body["metadata"].get("labels", {})]
        for label, _, value in (part.partition("=") for part in label_selector.split(",") if "=" in part):
            if not label.startswith(("app.kubernetes.io", "disttest.dev")):
                found = [body for body in found if (body["metadata"].get("labels") or {}).get(label) == value]
        if field_selector:
            uid = field_selector.partition("=")[2]
            found = [body for body in found if body.get("involvedObject", {}).get("uid") == uid]
        return copy.deepcopy(found)

    async def pages(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", only_metadata: bool = False
    ) -> AsyncIterator[Page]:
        found, version = await self.list(kind, namespace, label_selector=label_selector), next(self._versions)
        half = len(found) // 2
        for page in (found[:half], found[half:]):
            yield [{"metadata": body["metadata"]} if only_metadata else body for body in page], version

    async def create(self, kind: Kind, manifest: Manifest) -> Body:
        meta = manifest["metadata"]
        if kind in self.refuses:
            raise RequestRefusedError(f"POST {kind.resource}: 403 exceeded quota")
        if (kind, meta.get("namespace", ""), meta["name"]) in self.objects:
            raise AlreadyExistsError(f"{kind.resource} {meta['name']} exists")
        return self._write(f"create {kind.resource} {meta['name']}", kind, manifest)

    async def replace(self, kind: Kind, manifest: Manifest) -> Body:
        self._answer()
        meta = manifest["metadata"]
        before = self.objects.get((kind, meta["namespace"], meta["name"]))
        if before is None or before["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise ConflictError(f"{kind.resource} {meta['name']} was changed")
        return self._write(f"replace {kind.resource} {meta['name']}", kind, manifest)

    async def patch_status(self, kind: Kind, body_meta: Mapping[str, Any], status: Mapping[str, Any]) -> Body | None:
        before = self.objects.get((kind, body_meta["namespace"], body_meta["name"]))
        if before is None:
            return None
        if kind is Kind.RUN and (wrong := self.refuses_in_status & status.keys()):
            raise RequestRefusedError(f"PATCH {kind.resource}: 422 {wrong} is invalid")
        try:
            _guard(kind, before, body_meta)
        except ConflictError:
            self.statuses_refused.append(set(status))
            raise
        if kind is Kind.RUN:
            self.statuses.append(copy.deepcopy(dict(status)))
        known = {key: value for key, value in status.items() if key not in self.prunes_in_status}
        after = {**before, "status": merged(before.get("status", {}), known)}
        return self._write(f"patch {kind.resource} {before['metadata']['name']}", kind, after)

    async def patch_owners(self, kind: Kind, body_meta: Mapping[str, Any], owners: Sequence[Manifest]) -> None:
        before = self.objects.get((kind, body_meta["namespace"], body_meta["name"]))
        if before is None:
            return
        if kind in self.refuses_patches:
            raise RequestRefusedError(f"PATCH {kind.resource}: 403 forbidden")
        _guard(kind, before, body_meta)
        meta = before["metadata"] | {"ownerReferences": [dict(owner) for owner in owners]}
        self._write(f"own {kind.resource} {meta['name']}", kind, before | {"metadata": meta})

    def collect_garbage(self) -> None:
        """As the garbage collector: what has no owner left goes; owners that are gone are no longer named."""
        present = {body["metadata"]["uid"] for body in self.objects.values()}
        for where, body in list(self.objects.items()):
            owners = body["metadata"].get("ownerReferences") or []
            if left := [owner for owner in owners if owner["uid"] in present]:
                body["metadata"]["ownerReferences"] = left
            elif owners:
                del self.objects[where]

    async def patch_labels(self, kind: Kind, name: str, labels: Mapping[str, str | None]) -> None:
        body = self.objects.get((kind, "", name))
        if body is None:
            return
        merged = {**body["metadata"].get("labels", {}), **labels}
        kept = {key: value for key, value in merged.items() if value is not None}
        self._write(f"label {kind.resource} {name}", kind, {**body, "metadata": {**body["metadata"], "labels": kept}})

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str, version: str = "") -> None:
        self._power("before")
        body = self.objects.get((kind, namespace, name))
        if body and version and body["metadata"]["resourceVersion"] != version:
            raise ConflictError(f"{kind.resource} {name} was changed")
        if body and body["metadata"]["uid"] == uid:
            del self.objects[kind, namespace, name]
            self.done.append(f"delete {kind.resource} {name}")
            self._power("after")

    async def log(self, namespace: str, pod: str, *, limit_bytes: int) -> bytes | None:  # noqa: ARG002  # the Protocol's
        self.reads.append(f"log {pod}")
        if self.broken_logs:
            self.broken_logs -= 1
            raise ApiServerError("GET log: 502 no route to the node")
        log = self.logs.get(pod)
        return None if log is None else log.encode()

    async def follow_log(
        self, namespace: str, pod: str, *, prefix: str, tail_lines: int, limit_bytes: int
    ) -> AsyncGenerator[str, None]:
        self.reads.append(f"follow {pod}")
        for line in self.logs.get(pod, "").splitlines()[-tail_lines:]:
            if line.startswith(prefix):
                yield line
        assert limit_bytes
        assert namespace

    def _answer(self) -> None:
        if self.is_away:
            raise ApiServerError("no answer")

    def _write(self, words: str, kind: Kind, body: Mapping[str, Any]) -> Body:
        self._power("before")
        written = self.put(kind, body)
        self.done.append(words)
        self._power("after")
        return written

    def _power(self, moment: str) -> None:
        reached = len(self.done) + (0.5 if moment == "before" else 0.0)
        if self.cut is not None and reached == self.cut:
            raise PowerCut


def _guard(kind: Kind, before: Body, body_meta: Mapping[str, Any]) -> None:
    meta = before["metadata"]
    if (meta["uid"], meta["resourceVersion"]) != (body_meta["uid"], body_meta["resourceVersion"]):
        raise ConflictError(f"{kind.resource} {meta['name']} was changed")


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """As a merge patch: objects are merged, everything else is replaced, null takes out."""
    after = dict(before)
    for key, value in patch.items():
        if isinstance(value, Mapping):
            inner = after.get(key)
            after[key] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            after[key] = value
    return {key: value for key, value in after.items() if value is not None}
