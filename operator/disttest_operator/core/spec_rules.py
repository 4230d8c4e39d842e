"""Rules over several fields of a spec. The CRD has each of them in CEL, with the same path and the same sentence."""

from collections.abc import Iterator
from typing import Any

from disttest_contract import environment
from disttest_contract.suites import MEASURING
from disttest_operator.core import template_rules
from disttest_operator.core.model import Backend
from disttest_operator.core.spec_rule import Node, Rule
from disttest_operator.core.spec_schema import ADHOC_SERIES, RANKS_WITHOUT_GPUS

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
RESERVED = (
    "RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and names that"
    " begin with DISTTEST_, PET_, TORCHELASTIC_ or JOB_COMPLETION_ are set by the runner; leave this one out"
)


def _is_nccl_with_gpus(spec: Node) -> bool:
    return spec.get("backend") != Backend.NCCL or spec.get("gpusPerNode", 8) > 0


def _has_a_gpu_for_each_rank(spec: Node) -> bool:
    gpus = spec.get("gpusPerNode", 8)
    return gpus == 0 or spec.get("backend") == Backend.GLOO or spec.get("ranksPerNode", gpus) <= gpus


def _leaves_gpus_to_gpus_per_node(spec: Node) -> bool:
    resources = spec.get("template", {}).get("spec", {}).get("resources", {})
    name = spec.get("gpuResource", DEFAULT_GPU_RESOURCE)
    return all(name not in resources.get(kind, {}) for kind in ("limits", "requests"))


def _measures_what_has_thresholds(spec: Node) -> bool:
    """A suite with files may record what it likes."""
    return not spec.get("thresholds") or any(
        "configMap" in suite or "files" in suite or suite.get("builtin", suite["name"]) == MEASURING
        for suite in spec["suites"]
    )


def _has_ranks_to_measure(spec: Node) -> bool:
    ranks = spec.get("ranksPerNode") or spec.get("gpusPerNode", 8) or RANKS_WITHOUT_GPUS
    return not spec.get("thresholds") or spec.get("nodes", 1) * ranks > 1


def _has_room_for_a_case(timeouts: Node) -> bool:
    """One that is left out gives way to the other."""
    both = ("caseSeconds", "runSeconds")
    return not all(name in timeouts for name in both) or timeouts["caseSeconds"] <= timeouts["runSeconds"]


RULES = (
    Rule(
        path="series",
        sentence=f"{ADHOC_SERIES} is the series of runs that name none; choose another name, or leave series out",
        holds=lambda series: series != ADHOC_SERIES,
    ),
    Rule(
        path="suites[]",
        sentence=(
            "builtin, configMap and files exclude each other; write one, or none for the built-in suite of this name"
        ),
        holds=lambda suite: sum(source in suite for source in ("builtin", "configMap", "files")) <= 1,
    ),
    Rule(
        path="",
        sentence="backend nccl needs GPUs; write backend: gloo, or gpusPerNode of at least 1",
        holds=_is_nccl_with_gpus,
    ),
    Rule(
        path="",
        sentence=(
            "with GPUs every rank needs one of its own; write ranksPerNode of at most gpusPerNode,"
            " or backend: gloo, or gpusPerNode: 0"
        ),
        holds=_has_a_gpu_for_each_rank,
    ),
    Rule(
        path="",
        sentence="GPUs are asked for by gpusPerNode; remove the GPU resource from template.spec.resources",
        holds=_leaves_gpus_to_gpus_per_node,
    ),
    Rule(
        path="",
        sentence=(
            f"no suite measures what thresholds are about; add the suite {MEASURING}, or one with files, or remove"
            " thresholds"
        ),
        holds=_measures_what_has_thresholds,
    ),
    Rule(
        path="",
        sentence="one rank alone measures nothing; write more nodes or ranksPerNode, or remove thresholds",
        holds=_has_ranks_to_measure,
    ),
    Rule(path="env[].name", sentence=RESERVED, holds=lambda name: not environment.is_reserved(name)),
    Rule(path="suites[].env[].name", sentence=RESERVED, holds=lambda name: not environment.is_reserved(name)),
    Rule(
        path="timeouts",
        sentence="a case cannot last longer than the run; write caseSeconds of at most runSeconds",
        holds=_has_room_for_a_case,
    ),
    *template_rules.RULES,
)


def check(spec: Node) -> Iterator[str]:
    """Yield a sentence for every rule that does not hold."""
    for rule in RULES:
        for path, value in _find(spec, rule.path, "spec"):
            if not rule.holds(value):
                yield f"{path}: {rule.sentence}"


def _find(value: Any, rest: str, path: str) -> Iterator[tuple[str, Any]]:
    """Every value at a path, with its own path; nothing where a part of the way is absent."""
    if not rest:
        yield path, value
        return
    head, _, tail = rest.partition(".")
    name = head.removesuffix("[]")
    if name not in value:
        return
    if head.endswith("[]"):
        for index, item in enumerate(value[name]):
            yield from _find(item, tail, f"{path}.{name}[{index}]")
    else:
        yield from _find(value[name], tail, f"{path}.{name}")
