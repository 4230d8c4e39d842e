"""The objects that the operator would create for the first attempt of a DistTest."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from disttest_cli.errors import UsageError
from disttest_cli.formats import documents
from disttest_cli.input import applying
from disttest_cli.input.manifests import ConfigMaps, find_quarantine
from disttest_contract.gang import suites
from disttest_contract.gang.quarantine import NOTHING
from disttest_contract.text import escaping, formatting
from disttest_operator.core.api import allowances
from disttest_operator.core.api.model import DistTest, Manifest
from disttest_operator.core.workload import job, run_plan

ATTEMPT = 1
UID = "00000000-0000-0000-0000-000000000000"  # placeholder; the API server assigns it
NONCE = "made-anew-for-each-attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """`remarks` are comments: size, time budget and required objects."""

    test: DistTest
    objects: tuple[Manifest, ...]
    remarks: tuple[str, ...]


def make(test: DistTest, config_maps: ConfigMaps) -> ManifestPlan:
    """Raises UsageError if the operator would refuse the DistTest."""
    if unknown := run_plan.unknown_suites(test.spec):
        raise UsageError(f"{test.name}: suite {unknown[0]!r} is unknown; known: {suites.known()}")
    test = dataclasses.replace(test, uid=UID)
    wanted = test.spec.quarantine.config_map
    is_here = (test.namespace, wanted) in config_maps
    lists = find_quarantine(test, config_maps, {}) if is_here else NOTHING
    if problem := run_plan.excess(run_plan.run_plan(test, ATTEMPT, lists)):
        raise UsageError(f"{test.name}: {problem}")
    remarks = [*_sizes(test), *_needs(test, config_maps)]
    if wanted and not is_here:
        remarks.append(f"planned without its quarantine: ConfigMap {wanted} is not in the file")
    objects = (job.build_service(test, ATTEMPT), job.build_job(test, ATTEMPT, NONCE, quarantine=lists))
    return ManifestPlan(test=test, objects=objects, remarks=tuple(remarks))


def as_yaml(plans: Iterable[ManifestPlan]) -> str:
    """YAML for `kubectl apply --dry-run=server -f -`, with the remarks as comments."""
    parts = []
    for plan in plans:
        parts += [f"# {escaping.line(remark)}\n" for remark in plan.remarks]
        for manifest in plan.objects:
            plain = json.loads(json.dumps(manifest))  # without shared objects, which YAML would write as aliases
            parts.append(f"---\n{documents.as_yaml(plain, sort_keys=False)}")
    return "".join(parts)


def as_json(plans: Iterable[ManifestPlan]) -> str:
    items: list[Any] = [manifest for plan in plans for manifest in plan.objects]
    return documents.as_json({"apiVersion": "v1", "kind": "List", "items": items}, indent=4)


def _sizes(test: DistTest) -> Iterator[str]:
    spec, timeouts, retries = test.spec, test.spec.timeouts, test.spec.retries
    seconds = applying.budget_seconds(
        {
            "timeouts": {
                "queueSeconds": timeouts.queue_seconds,
                "joinSeconds": timeouts.join_seconds,
                "runSeconds": timeouts.run_seconds,
            },
            "retries": {"infrastructure": retries.infrastructure},
        }
    )
    many = "node" if spec.nodes == 1 else "nodes"
    gpus = f", {spec.gpus} {spec.gpu_resource}" if spec.gpus else ", no GPUs"
    yield (
        f"DistTest {test.namespace}/{test.name}, attempt {ATTEMPT}: {spec.nodes} {many} x {spec.ranks_per_node} ranks "
        f"over {spec.backend.value}{gpus}"
    )
    more = f", in up to {1 + retries.infrastructure} attempts" if retries.infrastructure else ""
    yield f"a verdict within {formatting.show_duration(seconds)} by its timeouts{more}"


def _needs(test: DistTest, config_maps: ConfigMaps) -> Iterator[str]:
    spec = test.spec
    maps = [suite.config_map for suite in spec.suites if suite.config_map] + [spec.quarantine.config_map]
    wanted = [
        *(f"ConfigMap {name}" for name in dict.fromkeys(maps) if name and (test.namespace, name) not in config_maps),
        f"PersistentVolumeClaim {spec.artifacts.persistent_volume_claim}"
        * bool(spec.artifacts.persistent_volume_claim),
        *(f"PersistentVolumeClaim {claim['claimName']}" for claim in spec.template.claims),
        f"ServiceAccount {spec.template.service_account_name}" * bool(spec.template.service_account_name),
        f"LocalQueue {spec.queue_name}" * bool(spec.queue_name),
    ]
    if named := [one for one in wanted if one]:
        yield f"must be in namespace {test.namespace}: {', '.join(named)}"
    if items := dict.fromkeys(need.allowance.item for need in allowances.needs(test)):
        yield f"the operator must have --allow={','.join(items)} (docs/security.md)"
