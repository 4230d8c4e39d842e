"""What the two runs were made with, where it differs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from disttest_cli.comparing.model import Difference
from disttest_contract.preflight import UNLIMITED, NodeFacts
from disttest_contract.report import Report
from disttest_contract.units import show_bytes

GIB = 1 << 30
NONE = "none"


def differences(a: Report, b: Report) -> tuple[Difference, ...]:
    """What is not known of one of them is no difference."""
    found = [
        *_world(a, b),
        *_versions(a, b),
        *(_of_nodes(what, show, a, b) for what, show in FACTS),
    ]
    return tuple(one for one in found if one.before != one.after and one.before and one.after)


def _world(a: Report, b: Report) -> Iterator[Difference]:
    yield Difference(what="backend", before=a.backend, after=b.backend)
    yield Difference(what="nodes", before=str(a.nodes), after=str(b.nodes))
    yield Difference(what="ranks per node", before=str(a.ranks_per_node), after=str(b.ranks_per_node))
    names, others = set(a.node_names), set(b.node_names)
    if names and others and (names != others):
        yield Difference(what="node names", before=_names(names - others) or NONE, after=_names(others - names) or NONE)


def _names(names: Iterable[str]) -> str:
    """Only those that the other run did not have."""
    return ", ".join(sorted(names))


def _versions(a: Report, b: Report) -> Iterator[Difference]:
    if a.versions and b.versions:
        for what in sorted(a.versions.keys() | b.versions.keys()):
            yield Difference(what=what, before=a.versions.get(what, NONE), after=b.versions.get(what, NONE))


def _of_nodes(what: str, show: Callable[[NodeFacts], str], a: Report, b: Report) -> Difference:
    return Difference(what=what, before=_shown(map(show, a.preflight)), after=_shown(map(show, b.preflight)))


def _shown(values: Iterable[str]) -> str:
    """One that all nodes share, else each with the number of its nodes."""
    counted = Counter(value for value in values if value)
    if len(counted) <= 1:
        return next(iter(counted), "")
    return ", ".join(f"{value} ({count} node{'s' if count > 1 else ''})" for value, count in sorted(counted.items()))


def _gpus(facts: NodeFacts) -> str:
    return " + ".join(f"{count} x {product}" for product, count in sorted(Counter(facts.gpus).items()))


def _memory(facts: NodeFacts) -> str:
    """What a kernel keeps for itself differs by a little from start to start."""
    return f"{round(facts.memory_bytes / GIB)} GiB" if facts.memory_bytes > 0 else ""


def _limit(count: int) -> str:
    return "unlimited" if count == UNLIMITED else show_bytes(count) if count > 0 else ""


FACTS: tuple[tuple[str, Callable[[NodeFacts], str]], ...] = (
    ("GPUs of a node", _gpus),
    ("driver", lambda facts: facts.driver),
    ("CUDA of the driver", lambda facts: facts.cuda_driver),
    ("kernel", lambda facts: facts.kernel),
    ("CPUs of a node", lambda facts: str(facts.cpus) if facts.cpus > 0 else ""),
    ("memory of a node", _memory),
    ("shared memory", lambda facts: _limit(facts.shm_bytes)),
    ("locked memory", lambda facts: _limit(facts.memlock_bytes)),
)
