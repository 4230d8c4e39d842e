"""What the run ran on, in few lines: facts that all nodes share once, others by node. Pure."""

from collections.abc import Callable, Sequence

from disttest_cli.formats import plain
from disttest_contract.preflight import NodeFacts
from disttest_contract.report import Report

MOST_NODES = 16  # by name
MOST_VALUES = 8  # of one fact
FACTS: tuple[tuple[str, Callable[[NodeFacts], str]], ...] = (
    ("GPUs", lambda one: _gpus(one.gpus)),
    ("driver", lambda one: one.driver),
    ("CUDA error", lambda one: one.cuda_error),
    ("kernel", lambda one: one.kernel),
)


def facts(report: Report) -> list[tuple[str, str]]:
    """Name and value of what is known."""
    versions = ", ".join(f"{name} {version}" for name, version in list(report.versions.items())[: 2 * MOST_NODES])
    known = [("nodes", plain.listed(report.node_names, MOST_NODES)), ("versions", versions)]
    known += [(name, _by_node(report.preflight, read)) for name, read in FACTS]
    return [(name, value) for name, value in known if value]


def _by_node(nodes: Sequence[NodeFacts], read: Callable[[NodeFacts], str]) -> str:
    values: dict[str, list[str]] = {}
    for one in nodes:
        values.setdefault(read(one), []).append(one.node_name)
    if len(values) <= 1:
        return next(iter(values), "")
    shown = [f"{value or 'unknown'} on {plain.listed(names, MOST_NODES)}" for value, names in values.items()]
    return "; ".join(shown[:MOST_VALUES]) + (
        f"; and {len(shown) - MOST_VALUES} more" if len(shown) > MOST_VALUES else ""
    )


def _gpus(products: Sequence[str]) -> str:
    kinds: dict[str, int] = {}
    for product in products:
        kinds[product] = kinds.get(product, 0) + 1
    return ", ".join(f"{count} x {product}" for product, count in kinds.items())
