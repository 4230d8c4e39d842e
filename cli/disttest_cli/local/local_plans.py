"""The plan of a DistTest for agents on this machine instead of a cluster."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from disttest_cli.errors import UsageError
from disttest_cli.input import manifests
from disttest_cli.local import run_request
from disttest_cli.local.run_request import Folder, RunRequest
from disttest_contract.gang import suites
from disttest_contract.gang.plan import FOR_EVER, UPSTREAM_ROOT, RunPlan, SuitePlan
from disttest_contract.results.network_transport import ANY
from disttest_contract.text import formatting
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
    if unknown := unknown_suites(test.spec):
        raise UsageError(f"{test.name}: suite {unknown[0]!r} is unknown. Known suites: {suites.known()}")
    devices = accelerator.detect_devices({**os.environ, **dict(test.spec.env)})
    if problem := gpu_problem(test, len(devices.products)):
        raise UsageError(problem)
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
        transport=ANY,  # all ranks are on this machine
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
            raise UsageError(f"{request.filename} has no suite {name!r}. Its suites: {', '.join(sorted(known))}")
    tests = tuple(test for test in documents.tests if _chosen(test, request))
    if len(tests) > 1 and request.times == FOR_EVER:
        raise UsageError(
            f"--until-fail would run only the first of {len(tests)} DistTests of {request.filename}. "
            "Add --repeat N, or use a file with one DistTest."
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
                f"{test.name}: ConfigMap {suite.config_map!r} of suite {suite.name!r} is not available on this "
                f"machine. Use --files {suite.config_map}=DIR."
            )
        folder = places.folders[suite.config_map]
        return dataclasses.replace(
            planned, directory=str(folder.path), files=folder.files, in_repository=folder.in_repository
        )
    if suite.files:
        if not places.root.is_dir():
            raise UsageError(
                f"{test.name}: folder {places.root} of suite {suite.name!r} does not exist. Use --root DIR."
            )
        return dataclasses.replace(planned, root=str(places.root))
    return planned


def gpu_problem(test: DistTest, gpus: int) -> str:
    """Why a machine with this number of GPUs cannot run the DistTest; empty if it can."""
    spec = test.spec
    if spec.backend is not Backend.NCCL:
        return ""
    if gpus and spec.nodes > 1:
        return (
            f"{test.name}: {spec.nodes} nodes cannot share the GPUs of this machine with NCCL. "
            "Set `nodes: 1`, or `gpusPerNode: 0` to use the CPU."
        )
    if gpus < spec.ranks_per_node:
        return (
            f"{test.name}: NCCL needs one GPU per rank ({formatting.counted(spec.ranks_per_node, 'rank')}), but this "
            f"machine has {gpus}. To use the CPU with gloo, set `gpusPerNode: 0` and do not set `backend`."
        )
    return ""
