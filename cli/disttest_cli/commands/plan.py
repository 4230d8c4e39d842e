import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from disttest_cli.commands import options
from disttest_cli.errors import UsageError
from disttest_cli.formats import documents
from disttest_cli.input import applying, manifests
from disttest_cli.input.manifests import ConfigMaps, find_quarantine
from disttest_contract.gang import suites
from disttest_contract.gang.quarantine import NOTHING
from disttest_contract.text import escaping, formatting
from disttest_operator.config.flags import FLAGS
from disttest_operator.core.api import allowances
from disttest_operator.core.api.model import Defaults, DistTest, Manifest, Timeouts
from disttest_operator.core.workload import job, run_plan

TIMEOUTS = ("queue-seconds", "rendezvous-seconds", "case-seconds", "run-seconds")
OF_THE_OPERATOR = {flag.name: flag for flag in FLAGS if flag.name in {"runner-image", "gpu-resource", *TIMEOUTS}}
ATTEMPT = 1
UID = "00000000-0000-0000-0000-000000000000"  # placeholder; the API server assigns it
NONCE = "generated-for-each-attempt"


def as_the_operator(command: Callable[..., Any]) -> Callable[..., Any]:
    """The operator's flags for defaults of DistTests, as arguments of these names; None if unset."""
    for flag in reversed(OF_THE_OPERATOR.values()):
        meaning = flag.meaning.replace("`", "").rstrip(".")
        words = f"{meaning}. Default: {flag.default}."
        command = click.option(f"--{flag.name}", flag.field, metavar=flag.value, help=words)(command)
    return command


@click.command("plan")
@options.filename("YAML file with DistTests and their ConfigMaps; - is standard input.")
@click.option(
    "-n", "--namespace", default="", metavar="NAMESPACE", help="Namespace of documents without one. Default: default."
)
@options.output("yaml", "json", default="yaml")
@as_the_operator
def command(*, filename: str, namespace: str, output: str, **flags: str | None) -> int:
    """Print the Service and the Job that the operator would create for each DistTest of a file.

    No cluster is needed. The flags set the defaults of unset fields, as in the operator. Generated names end in
    `local`; uid and nonce are placeholders. To validate the output, pipe it to `kubectl apply --dry-run=server -f -`.

    Exit codes: 0, 2 usage error or invalid DistTest.
    """
    read = manifests.read(filename, defaults=_defaults(flags), namespace=namespace)
    plans = [make_plan(test, read.config_maps) for test in read.tests]
    sys.stdout.write(_as_json(plans) if output == "json" else _as_yaml(plans))
    return 0


def _defaults(given: dict[str, str | None]) -> Defaults:
    read: dict[str, Any] = {}
    for flag in OF_THE_OPERATOR.values():
        text = given.get(flag.field)
        try:
            read[flag.field] = flag.read(flag.default if text is None else text, f"--{flag.name}")
        except ValueError as error:
            raise UsageError(str(error)) from error
    names = [name.replace("-", "_") for name in TIMEOUTS]
    timeouts = Timeouts().override({name: read[name] for name in names if given.get(name) is not None})
    if not timeouts.is_consistent:
        raise UsageError(f"--case-seconds is longer than the run timeout. It must be at most {timeouts.run_seconds}.")
    return Defaults(image=read["runner_image"], gpu_resource=read["gpu_resource"], timeouts=timeouts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """`remarks` are comments: size, time budget and required objects."""

    objects: tuple[Manifest, ...]
    remarks: tuple[str, ...]


def make_plan(test: DistTest, config_maps: ConfigMaps) -> ManifestPlan:
    """The objects of the first attempt. Raises UsageError if the operator would reject the DistTest."""
    if unknown := run_plan.unknown_suites(test.spec):
        raise UsageError(f"{test.name}: suite {unknown[0]!r} is unknown. Known suites: {suites.known()}")
    test = dataclasses.replace(test, uid=UID)
    wanted = test.spec.quarantine.config_map
    is_here = (test.namespace, wanted) in config_maps
    lists = find_quarantine(test, config_maps, {}) if is_here else NOTHING
    if problem := run_plan.excess(run_plan.run_plan(test, ATTEMPT, lists)):
        raise UsageError(f"{test.name}: {problem}")
    remarks = [*_sizes(test), *_needs(test, config_maps)]
    if wanted and not is_here:
        remarks.append(f"quarantine is not included: ConfigMap {wanted} is not in the file")
    objects = (job.build_service(test, ATTEMPT), job.build_job(test, ATTEMPT, NONCE, quarantine=lists))
    return ManifestPlan(objects=objects, remarks=tuple(remarks))


def _as_yaml(plans: Iterable[ManifestPlan]) -> str:
    """YAML for `kubectl apply --dry-run=server -f -`, with the remarks as comments."""
    parts = []
    for plan in plans:
        parts += [f"# {escaping.line(remark)}\n" for remark in plan.remarks]
        for manifest in plan.objects:
            plain = json.loads(json.dumps(manifest))  # without shared objects, which YAML would write as aliases
            parts.append(f"---\n{documents.as_yaml(plain, sort_keys=False)}")
    return "".join(parts)


def _as_json(plans: Iterable[ManifestPlan]) -> str:
    items: list[Any] = [manifest for plan in plans for manifest in plan.objects]
    return documents.as_json({"apiVersion": "v1", "kind": "List", "items": items}, indent=4)


def _sizes(test: DistTest) -> Iterator[str]:
    spec = test.spec
    seconds = applying.seconds_of(spec.timeouts, spec.retries.infrastructure)
    gpus = f", {spec.gpus} {spec.gpu_resource}" if spec.gpus else ", no GPUs"
    yield (
        f"DistTest {test.namespace}/{test.name}, attempt {ATTEMPT}: "
        f"{formatting.gang_size(spec.nodes, spec.ranks_per_node)} with {spec.backend.value}{gpus}"
    )
    more = f", in up to {1 + spec.retries.infrastructure} attempts" if spec.retries.infrastructure else ""
    yield f"maximum time until the verdict, from its timeouts: {formatting.show_duration(seconds)}{more}"


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
        yield f"required in namespace {test.namespace}: {', '.join(named)}"
    if items := dict.fromkeys(need.item for _, need in allowances.needs(test)):
        yield f"required flag of the operator: --allow={','.join(items)} (docs/operating/security.md)"
