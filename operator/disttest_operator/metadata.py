"""Lists of metadata: whose version is which. The API server sends the managed fields along, which are most of it.

They are skipped where they stand: made into dicts, those of 5,000 Jobs cost a second of processor time.
"""

from typing import NotRequired, TypedDict, cast

import msgspec

from disttest_operator.ports import ClusterError, Page


class Meta(TypedDict):
    """Of an object, what a comparison of versions needs."""

    uid: str
    name: str
    namespace: NotRequired[str]
    resourceVersion: str


class _Item(TypedDict):
    metadata: Meta


_ListMeta = TypedDict("_ListMeta", {"resourceVersion": str, "continue": NotRequired[str]})


class _List(TypedDict):
    metadata: _ListMeta
    items: list[_Item] | None  # an empty list of metadata has none


_decoder = msgspec.json.Decoder(_List)


def read(raw: bytes) -> tuple[Page, str]:
    """One page, and the token of the next, "" after the last. Raises ClusterError for what is no such list."""
    try:
        page = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(f"a list of metadata cannot be read: {error}") from error
    listed = cast("Page", (page["items"] or [], int(page["metadata"]["resourceVersion"])))
    return listed, page["metadata"].get("continue", "")
