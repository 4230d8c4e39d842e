"""Numbers, times, ranks and names of a report as text. Reports can be forged, so no value is taken as valid."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from disttest_contract import limits
from disttest_contract.results import network_transport
from disttest_contract.results.network_transport import NetworkTransport
from disttest_contract.results.preflight import UNLIMITED, NodeFacts
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting

Name = TypeVar("Name")
Value = TypeVar("Value")

MOST_SECONDS = 1e11  # limit of times and durations: the year 5138


def seconds(value: float | None) -> float:
    """0 for an invalid duration."""
    return min(value, MOST_SECONDS) if value is not None and math.isfinite(value) and value > 0 else 0.0


def milliseconds(value: float | None) -> int:
    return round(seconds(value) * 1000)


def moment(value: float | None) -> datetime | None:
    """None for an invalid time."""
    return datetime.fromtimestamp(value, UTC) if value is not None and 0 < value <= MOST_SECONDS else None


UNKNOWN = "unknown"
RANKS_BYTES, PAGE_RANKS_BYTES = 200, 60  # in a text, in a page
NODE_BYTES, MOST_NODES = 64, 8
MINUTE, HOUR = 60, 3600


def known(number: object) -> float | None:
    """The number if it is finite and in a sensible range, else None."""
    if not isinstance(number, (int, float)) or not math.isfinite(number) or not 0 <= number < 1e12:
        return None
    return float(number)


def duration(seconds: float | None) -> str:
    """Three digits below a minute: 0.05 s, 12.4 s, 12 min 52 s, 3 h 05 min."""
    seconds = known(seconds)
    if seconds is None:
        return UNKNOWN
    if seconds < MINUTE:
        return f"{seconds:.{2 if seconds < 10 else 1}f} s"
    if seconds < HOUR:
        return f"{int(seconds) // MINUTE} min {int(seconds) % MINUTE:02d} s"
    return f"{int(seconds) // HOUR} h {int(seconds) % HOUR // MINUTE:02d} min"


def show_moment(value: float | None, otherwise: str = UNKNOWN) -> str:
    found = moment(value)
    return f"{found:%Y-%m-%d %H:%M:%S} UTC" if found else otherwise


def rank_list(ranks: Iterable[int] | str, limit_bytes: int = RANKS_BYTES) -> str:
    """`rank 9` or `ranks 0-3,7`; empty for no ranks. A text is one that `show_ranks` wrote."""
    shown = ranks if isinstance(ranks, str) else formatting.show_ranks(ranks)
    return f"rank{'' if shown.isdecimal() else 's'} {limits.cut(shown, limit_bytes)}" if shown else ""


def where(ranks: Iterable[int] | str, nodes: Iterable[str], limit_bytes: int = RANKS_BYTES) -> str:
    """`rank 9 on gpu-node-23`; empty if no rank or node is at fault."""
    names = formatting.listed([escaping.short_line(node, NODE_BYTES) for node in nodes], MOST_NODES)
    return " ".join(part for part in (rank_list(ranks, limit_bytes), f"on {names}" if names else "") if part)


def memory_limit(size: int) -> str:
    """Empty for an unknown one."""
    return "unlimited" if size == UNLIMITED else formatting.show_bytes(size) if size > 0 else ""


def memory(size: int) -> str:
    """Rounded, since equal nodes differ by some pages, and a kernel reserves a part that differs from boot to boot."""
    return f"{size / (1 << 30):,.0f} GiB" if size > 0 else ""


count = functools.partial(formatting.counted, style=",")  # like all numbers of a page


def grouped(pairs: Iterable[tuple[Name, Value]]) -> dict[Value, list[Name]]:
    """The names of each value, in the order in which values first occur."""
    groups: dict[Value, list[Name]] = {}
    for name, value in pairs:
        groups.setdefault(value, []).append(name)
    return groups


def gpus(facts: NodeFacts) -> str:
    """`8 x NVIDIA H100`, the most frequent product first."""
    counts = sorted(Counter(facts.gpus).items(), key=lambda item: (-item[1], item[0]))[:MOST_NODES]
    shown = ", ".join(f"{count} x {product}" for product, count in counts)
    return f"{shown} (shared by ranks)" if shown and facts.shares_gpus else shown


def transport(report: Report) -> str:
    """The networks that the ranks used; empty if they are unknown."""
    return "" if report.transport == network_transport.UNKNOWN else escaping.short_line(report.transport.words, 400)


def network(report: Report) -> str:
    """The network of the run: of several the worst. Empty if it is unknown."""
    used = report.transport.used
    return "" if used.transport is NetworkTransport.UNKNOWN else escaping.short_line(used.words, 200)


# What is shown of a node, by label; empty if it is unknown.
NODE_FACTS: Mapping[str, Callable[[NodeFacts], str]] = {
    "GPUs": gpus,
    "driver": lambda facts: facts.driver,
    "CUDA of the driver": lambda facts: facts.cuda_driver,
    "CUDA error": lambda facts: limits.cut(facts.cuda_error, 400),
    "GPUs in use": lambda facts: limits.cut(", ".join(facts.busy_gpus), 400),
    "shared memory": lambda facts: memory_limit(facts.shm_bytes),
    "locked memory": lambda facts: memory_limit(facts.memlock_bytes),
    "CPUs": lambda facts: str(facts.cpus) if facts.cpus > 0 else "",
    "memory": lambda facts: memory(facts.memory_bytes),
    "kernel": lambda facts: facts.kernel,
}
