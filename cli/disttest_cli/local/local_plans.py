"""The plan of a DistTest for agents on this machine instead of a cluster."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from disttest_cli.errors import UsageError
from disttest_cli.input import manifests
from disttest_cli.local import run_request
from disttest_cli.local.run_request import Folder, RunRequest
from disttest_contract.gang import suites
from disttest_contract.gang.plan import FOR_EVER, UPSTREAM_ROOT, RunPlan, SuitePlan
from disttest_operator.core.api.model import Backend, DistTest, Suite
from disttest_operator.core.workload.run_plan import excess, run_plan, unknown_suites
from disttest_runner.agent import accelerator

ATTEMPT = 1
NO_END_SECONDS = 10 * 365 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlaces:
    """Local paths of what a cluster would mount."""

    folders: Mapping[str, Folder] = field(default_factory=dict)  # ConfigMap -> folder
    config_maps: manifests.ConfigMaps = field(default_factory=dict)
    root: Path = Path(UPSTREAM_ROOT)
    artifacts: str = ""


def make(test: DistTest, places: LocalPlaces, request: RunRequest) -> RunPlan:
    """Make the plan; placement is ignored. Raises UsageError."""
    unknown = unknown_suites(test.spec)
    if unknown:
        raise UsageError(f"{test.name}: suite {unknown[0]!r} is unknown; known: {suites.known()}")
    if test.spec.backend is Backend.NCCL:
        _check_gpus(test)
    folders = {name: str(folder.path) for name, folder in places.folders.items()}
    plan = run_plan(test, ATTEMPT, manifests.find_quarantine(test, places.config_maps, folders))
    chosen = _chosen(test, request)
    if wrong := run_request.of_one_suite(request, [suite.name for suite in chosen]):
        raise UsageError(f"{test.name}: {wrong}")
    case_seconds = request.case_timeout or plan.case_seconds
    run_seconds = NO_END_SECONDS if request.times == FOR_EVER else plan.run_seconds
    planned = {suite.name: suite for suite in plan.suites}
    measures = any(suite.builtin == suites.MEASURING for suite in chosen)
    plan = dataclasses.replace(
        plan,
        suites=tuple(_only(_with_paths(test, suite, planned[suite.name], places), request) for suite in chosen),
        thresholds=plan.thresholds if measures else (),
        spread=False,
        case_seconds=case_seconds,
        run_seconds=request.timeout or max(run_seconds, case_seconds),
        artifacts=places.artifacts,
        repeat=request.times,
        until_fail=request.until_fail,
    )
    if problem := excess(plan):
        raise UsageError(f"{test.name}: {problem}")
    return plan


def _chosen(test: DistTest, request: RunRequest) -> list[Suite]:
    if not request.filename or not request.suites:
        return list(test.spec.suites)
    return [suite for suite in test.spec.suites if suite.name in request.suites]


def of_file(documents: manifests.Documents, request: RunRequest) -> tuple[DistTest, ...]:
    known = {suite.name for test in documents.tests for suite in test.spec.suites}
    for name in request.suites:
        if name not in known:
            raise UsageError(f"{request.filename} has no suite {name!r}; its suites: {', '.join(sorted(known))}")
    tests = tuple(test for test in documents.tests if _chosen(test, request))
    if len(tests) > 1 and request.times == FOR_EVER:
        raise UsageError(
            f"--until-fail would never come to the second of {len(tests)} DistTests of {request.filename}: "
            "say --repeat N as well, or use a file with one"
        )
    return tests


def _only(planned: SuitePlan, request: RunRequest) -> SuitePlan:
    """Restrict a suite to the selected cases; ids replace the selection of the file."""
    if request.cases:
        return dataclasses.replace(planned, select="", cases=request.cases)
    if request.select:
        both = f"({planned.select}) and ({request.select})" if planned.select else request.select
        return dataclasses.replace(planned, select=both)
    return planned


def _with_paths(test: DistTest, suite: Suite, planned: SuitePlan, places: LocalPlaces) -> SuitePlan:
    if suite.config_map:
        if suite.config_map not in places.folders:
            raise UsageError(
                f"{test.name}: suite {suite.name!r} takes its files from the ConfigMap {suite.config_map!r}, "
                f"which is not here: say --files {suite.config_map}=DIR"
            )
        folder = places.folders[suite.config_map]
        return dataclasses.replace(
            planned, directory=str(folder.path), files=folder.files, in_repository=folder.in_repository
        )
    if suite.files:
        if not places.root.is_dir():
            raise UsageError(
                f"{test.name}: suite {suite.name!r} takes its files from below {places.root}, "
                "which is no folder here: say --root DIR"
            )
        return dataclasses.replace(planned, root=str(places.root))
    return planned


def _check_gpus(test: DistTest) -> None:
    spec, here = test.spec, len(accelerator.detect_devices().products)
    if spec.nodes > 1:
        raise UsageError(
            f"{test.name}: {spec.nodes} nodes over NCCL would share the GPUs of this machine: "
            "set `nodes: 1`, or `gpusPerNode: 0` to run on the CPU"
        )
    if here < spec.ranks_per_node:
        raise UsageError(
            f"{test.name}: backend nccl needs a GPU for each of {spec.ranks_per_node} ranks, this machine has {here}: "
            "set `gpusPerNode: 0` (and leave `backend` away) to run on the CPU over gloo"
        )
