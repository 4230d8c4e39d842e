"""Stores of parsed objects, one for each kind. Watches, lists and our own writes fill them in any order."""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from disttest_operator.cache.cached_run import CachedItem, Key, key_of
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import Body, PodView

T = TypeVar("T", bound=CachedItem)


@dataclass(slots=True)
class StoreEntry(Generic[T]):
    resource_version: int
    key: Key
    item: T


class VersionedStore(Generic[T]):
    """Objects of one kind by uid: an older state never replaces a newer one, and a deleted object stays deleted."""

    def __init__(self, key_of: Callable[[T], Key] = key_of) -> None:
        self._key_of = key_of
        self._entries: dict[str, StoreEntry[T]] = {}
        self._by_key: dict[Key, dict[str, StoreEntry[T]]] = {}
        self._deleted: dict[str, int] = {}  # uid -> resourceVersion of the deletion: an older list still has the object

    def find(self, uid: str) -> StoreEntry[T] | None:
        return self._entries.get(uid)

    def entries(self) -> list[tuple[str, StoreEntry[T]]]:
        return list(self._entries.items())

    def items(self) -> list[T]:
        return [entry.item for entry in self._entries.values()]

    def items_of(self, key: Key) -> list[T]:
        return [entry.item for entry in self._by_key.get(key, {}).values()]

    def version_of(self, uid: str) -> int:
        """The newest resourceVersion that is known, that of the deletion included; 0 for an unknown object."""
        entry = self._entries.get(uid)
        return entry.resource_version if entry else self._deleted.get(uid, 0)

    def is_stale(self, uid: str, version: int) -> bool:
        """A watch also sends DELETED when labels are removed: the object still exists, and its version is not older."""
        deleted, entry = self._deleted.get(uid), self._entries.get(uid)
        is_deleted = deleted is not None and not 0 < deleted <= version
        return is_deleted or (entry is not None and entry.resource_version >= version)

    def put(self, uid: str, version: int, item: T) -> Key:
        entry = StoreEntry(resource_version=version, key=self._key_of(item), item=item)
        before = self._entries.get(uid)
        if before and before.key != entry.key:  # a CronJob can move to another series
            self.drop(uid)
        self._deleted.pop(uid, None)
        self._entries[uid] = entry
        self._by_key.setdefault(entry.key, {})[uid] = entry
        return entry.key

    def drop(self, uid: str) -> StoreEntry[T] | None:
        entry = self._entries.pop(uid, None)
        if entry:
            siblings = self._by_key[entry.key]
            del siblings[uid]
            if not siblings:
                del self._by_key[entry.key]
        return entry

    def note_deleted(self, uid: str, version: int) -> None:
        """Reject states older than `version` from now on; 0 rejects every state until the next list."""
        self._deleted[uid] = version

    def forget_deletions(self, version: int) -> None:
        """No list older than `version` is read any more."""
        self._deleted = {uid: deleted for uid, deleted in self._deleted.items() if deleted > version}


class PodStore(VersionedStore[PodView]):
    """Keeps pods that are gone, with their last state, until their run is finished: its verdict needs them."""

    def decode_gone(self, body: Body, now: datetime) -> PodView | None:
        """The pod of a DELETED event, marked as gone. None if it is no pod of a gang."""
        entry = self.find(body["metadata"]["uid"])
        return decoding.pod(body, now=now, before=entry.item if entry else None, is_gone=True)

    def adopt(self, test: DistTest, body: Body, now: datetime) -> None:
        """Take over a pod of the run's Job that lost its labels: no watch reports it any more."""
        meta = body["metadata"]
        entry = self.find(meta["uid"])
        before = entry.item if entry and entry.item.run_uid == test.uid else None
        if before and before.is_gone:
            before = replace(before, is_gone=False, ending_since=None)
        labels = {**(meta.get("labels") or {}), **naming.labels(test, test.attempt)}
        if pod := decoding.pod({**body, "metadata": {**meta, "labels": labels}}, now=now, before=before):
            self.put(pod.uid, pod.resource_version, replace(pod, is_unwatched=True))

    def mark_missing(self, test: DistTest, pods: Iterable[PodView], present: Container[str]) -> None:
        """Mark unwatched pods of the run's attempt as gone that the list of its Job's pods does not have."""
        for pod in pods:
            if pod.is_unwatched and pod.attempt == test.attempt and pod.uid not in present:
                self.put(pod.uid, pod.resource_version, replace(pod, is_gone=True, is_unwatched=False))

    def drop_untracked(self, key: Key) -> None:
        """Drop what neither watches nor lists will remove."""
        for pod in self.items_of(key):
            if is_untracked(pod):
                self.drop(pod.uid)


def is_untracked(pod: PodView) -> bool:
    return pod.is_gone or pod.is_unwatched
