"""Pages of lists, as the API server sends them; each is read with the token of the next, "" after the last."""

import json
from typing import NotRequired, TypedDict, cast

import msgspec

from disttest_operator.ports import ClusterError, Page


class _Meta(TypedDict):
    uid: str
    name: str
    namespace: NotRequired[str]
    resourceVersion: str


class _Item(TypedDict):
    metadata: _Meta


_ListMeta = TypedDict("_ListMeta", {"resourceVersion": str, "continue": NotRequired[str]})


class _List(TypedDict):
    metadata: _ListMeta
    items: list[_Item] | None  # an empty list of metadata has none


_decoder = msgspec.json.Decoder(_List)


def read(raw: bytes) -> tuple[Page, str]:
    """Of whole objects. Raises ClusterError for what is no list."""
    try:
        page = json.loads(raw)
        meta = page["metadata"]
        return (page["items"], int(meta["resourceVersion"])), meta.get("continue") or ""
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"a list cannot be read: {error!r}") from error


def read_metadata(raw: bytes) -> tuple[Page, str]:
    """Of each object what a comparison of versions needs. Raises ClusterError for what is no such list.

    Most of what comes are managed fields. They are skipped where they stand: made into dicts, those of 5,000 Jobs cost
    a second of processor time.
    """
    try:
        page = _decoder.decode(raw)
        listed = cast("Page", (page["items"] or [], int(page["metadata"]["resourceVersion"])))
    except ValueError as error:
        raise ClusterError(f"a list of metadata cannot be read: {error}") from error
    return listed, page["metadata"].get("continue", "")
