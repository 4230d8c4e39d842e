"""Reads the dumps of torch's flight recorder in one rank, and keeps what comparing all ranks needs. Pure."""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from disttest_contract.text import formatting

ENTRIES = 8  # of one group, around the first that has not ended
MAX_GROUPS = 16  # of one rank
TEXT_CHARACTERS = 80  # of a name or of sizes
P2P_ENTRIES = 2
BEFORE = -1  # the life of a group that this case has not used

DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "Long": "int64", "Int": "int32"}
_read_ranks = functools.lru_cache(maxsize=4096)(formatting.read_ranks)  # thousands of ranks have the same groups


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOperation:
    """One operation that a rank called. `number` counts the collectives of its group from 1."""

    number: int
    op: str
    what: str  # `float32[4]`
    elements: int
    is_done: bool
    is_p2p: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrace:
    """One process group in one rank. `life` numbers successive groups with the same name within the case."""

    backend: str
    name: str
    description: str
    life: int
    members: tuple[int, ...]  # empty: unknown
    last: int  # the highest number of a collective that was called
    entries: tuple[RecordedOperation, ...]  # oldest first

    @property
    def key(self) -> tuple[str, str]:
        return self.backend, self.name

    @property
    def pending(self) -> RecordedOperation | None:
        """The collective that this rank waits in, if any."""
        return self._pending(is_p2p=False)

    @property
    def pending_p2p(self) -> RecordedOperation | None:
        """A send or receive that this rank waits in, if any."""
        return self._pending(is_p2p=True)

    def _pending(self, *, is_p2p: bool) -> RecordedOperation | None:
        if self.life == BEFORE:
            return None
        return next((entry for entry in self.entries if not entry.is_done and entry.is_p2p is is_p2p), None)

    def entry(self, number: int) -> RecordedOperation | None:
        return next((entry for entry in self.entries if entry.number == number and not entry.is_p2p), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    groups: tuple[GroupTrace, ...] = ()

    def group(self, backend: str, name: str, life: int) -> GroupTrace | None:
        """Return that life of a group, else what this rank did with it before the case."""
        mine = {group.life: group for group in self.groups if group.key == (backend, name)}
        return mine.get(life) or mine.get(BEFORE)

    def to_json(self) -> list[Any]:
        """Return a compact form, since it is sent for each rank."""
        return [
            [
                group.backend,
                group.name,
                group.description,
                group.life,
                formatting.show_ranks(group.members),
                group.last,
                [[e.number, e.op, e.what, e.elements, int(e.is_done), int(e.is_p2p)] for e in group.entries],
            ]
            for group in self.groups
        ]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Self:
        """Raises ValueError, TypeError, KeyError or IndexError for what `to_json` did not write."""
        return cls(groups=tuple(_group_from_json(group) for group in data[:MAX_GROUPS]))


def _group_from_json(data: Sequence[Any]) -> GroupTrace:
    backend, name, description, life, members, last, entries = data
    return GroupTrace(
        backend=_short(backend),
        name=_short(name),
        description=_short(description),
        life=int(life),
        members=_read_ranks(str(members)),
        last=int(last),
        entries=tuple(
            RecordedOperation(
                number=int(number),
                op=_short(op),
                what=_short(what),
                elements=int(elements),
                is_done=bool(is_done),
                is_p2p=bool(is_p2p),
            )
            for number, op, what, elements, is_done, is_p2p in entries[: 2 * ENTRIES]
        ),
    )


def read(dumps: Iterable[Mapping[str, Any]], *, case_started_ns: int, members: Mapping[str, tuple[int, ...]]) -> Trace:
    """`dumps` are those of all recorders of a rank; `members` are the ranks of torch's current groups by name."""
    lives: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = {}
    for dump in dumps:
        for entry in dump.get("entries", ()):
            backend, _, _ = str(entry["profiling_name"]).partition(":")
            name = str(entry["process_group"][0])
            lives.setdefault((backend, name), {}).setdefault(entry["pg_id"], []).append(entry)
    groups: list[GroupTrace] = []
    for (backend, name), by_id in lives.items():
        now = [entries for entries in by_id.values() if entries[-1]["time_created_ns"] >= case_started_ns]
        for life, entries in [*enumerate(now)][-2:] or [(BEFORE, [*by_id.values()][-1])]:
            groups.append(_group(backend, name, life, entries, members.get(name, ())))
    groups.sort(key=lambda group: (group.pending is None, group.life == BEFORE))  # pending ones first, the rest is cut
    return Trace(groups=tuple(groups[:MAX_GROUPS]))


def _group(
    backend: str, name: str, life: int, raw: Sequence[Mapping[str, Any]], members: tuple[int, ...]
) -> GroupTrace:
    entries = list(_operations(raw))
    collectives = [entry for entry in entries if not entry.is_p2p]
    waiting = [entry for entry in entries if entry.is_p2p and not entry.is_done]
    first = next((at for at, entry in enumerate(collectives) if not entry.is_done), len(collectives))
    begin = max(0, min(first - ENTRIES // 2, len(collectives) - ENTRIES))
    return GroupTrace(
        backend=_short(backend),
        name=_short(name),
        description=_short(raw[-1]["process_group"][1]),
        life=life,
        members=members,
        last=max(int(one["collective_seq_id"]) for one in raw),  # sends have that of the last collective
        entries=(*collectives[begin : begin + ENTRIES], *waiting[:P2P_ENTRIES]),
    )


def _operations(raw: Sequence[Mapping[str, Any]]) -> Iterator[RecordedOperation]:
    """Yield the operations of a group in their order. The entries of a batch are one operation.

    NCCL's members of a batch stay `scheduled`: only the entry that torch adds when the batch ends has its state.
    """
    single: list[Mapping[str, Any]] = []
    for at, one in enumerate(raw):
        if _ends_batch(one):
            begin = len(single)
            while begin and _number(single[begin - 1]) == _number(one, is_p2p=_is_p2p(single[begin - 1])):
                begin -= 1
            yield from _unended(single[:begin])
            yield from _batch(single[begin:], one, is_first=not at)
            single = []
        else:
            single.append(one)
    yield from _unended(single)


def _unended(raw: Sequence[Mapping[str, Any]]) -> Iterator[RecordedOperation]:
    """Yield operations without an entry that ends a batch.

    Several with one number are a batch that was not sent, or a part of a CUDA graph: their rank waits elsewhere.
    """
    for _, together in itertools.groupby(raw, key=lambda one: (_is_p2p(one), _number(one))):
        entries = [_entry(one) for one in together]
        yield from entries if len(entries) == 1 else [replace(entry, is_done=True) for entry in entries]


def _batch(
    members: Sequence[Mapping[str, Any]], end: Mapping[str, Any], *, is_first: bool
) -> Iterator[RecordedOperation]:
    """Yield what the batch is for the comparison: a collective, sends and receives, or both."""
    whole = _entry(end)
    collectives = [_entry(one) for one in members if not _is_p2p(one)]
    sends = [_entry(one) for one in members if _is_p2p(one)]
    if len(collectives) == 1:  # it may also be one that was called alone, just before a batch of sends
        yield replace(collectives[0], is_done=collectives[0].is_done or whole.is_done)
    elif collectives:
        shown = _short(", ".join(entry.op for entry in collectives))
        yield replace(whole, number=collectives[0].number, what=shown, is_p2p=False)
    if sends:
        shown = ", ".join(entry.op for entry in sends)
        yield replace(whole, number=sends[0].number, op=_short(f"batch of {shown}"), is_p2p=True)
    if not members:  # the ring has lost them, or torch 2.7 did not record collectives in a batch
        is_p2p = is_first and (_number(end, is_p2p=True) > 0 or not _number(end, is_p2p=False))
        op = "batch of sends and receives" if is_p2p else whole.op
        yield replace(whole, number=_number(end, is_p2p=is_p2p), op=op, is_p2p=is_p2p)


def _ends_batch(raw: Mapping[str, Any]) -> bool:
    """`coalesced`, or `ALLGATHER_coalesced`; with sizes it is a call that coalesces itself."""
    return str(raw["profiling_name"]).endswith("coalesced") and not raw["input_sizes"] and not raw["output_sizes"]


def _is_p2p(raw: Mapping[str, Any]) -> bool:
    return bool(raw.get("is_p2p"))


def _number(raw: Mapping[str, Any], *, is_p2p: bool | None = None) -> int:
    is_p2p = _is_p2p(raw) if is_p2p is None else is_p2p
    return int(raw["p2p_seq_id" if is_p2p else "collective_seq_id"])


def _entry(raw: Mapping[str, Any]) -> RecordedOperation:
    """A retired work has ended, whatever its state: gloo's stays `scheduled`."""
    sizes = raw["input_sizes"] or raw["output_sizes"]
    dtypes = [DTYPES.get(dtype, str(dtype).lower()) for dtype in raw["input_dtypes"] or raw["output_dtypes"]]
    shown = ", ".join(f"{dtype}{size}" for dtype, size in zip(dtypes, sizes, strict=False))
    return RecordedOperation(
        number=_number(raw),
        op=_short(str(raw["profiling_name"]).partition(":")[2] or raw["profiling_name"]),
        what=_short(shown),
        elements=sum(math.prod(size) for size in sizes),
        is_done=raw["state"] == "completed" or bool(raw["retired"]),
        is_p2p=_is_p2p(raw),
    )


def _short(text: object) -> str:
    return str(text)[:TEXT_CHARACTERS]
