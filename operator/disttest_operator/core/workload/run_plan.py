"""The run plan of an attempt, which the gang receives in an environment variable."""

from disttest_contract import limits
from disttest_contract.gang import suites
from disttest_contract.gang.plan import UPSTREAM_ROOT, RunPlan, SuitePlan
from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import DistTest, Placement, Spec, Suite
from disttest_operator.core.observed import attempts


def run_plan(test: DistTest, attempt: int, quarantine: Lists = NOTHING) -> RunPlan:
    spec = test.spec
    return RunPlan(
        namespace=test.namespace,
        name=test.name,
        uid=test.uid,
        series=spec.series,
        attempt=attempt,
        nodes=spec.nodes,
        ranks_per_node=spec.ranks_per_node,
        backend=spec.backend.value,
        spread=spec.placement is Placement.SPREAD,
        suites=tuple(_suite_plan(suite, quarantine.get(suite.name, ())) for suite in spec.suites),
        rendezvous_seconds=spec.timeouts.rendezvous_seconds,
        case_seconds=spec.timeouts.case_seconds,
        run_seconds=attempts.run_seconds_left(test),
        flaky_retries=spec.retries.flaky,
        artifacts=naming.ARTIFACTS_DIRECTORY if spec.artifacts.persistent_volume_claim else "",
        thresholds=spec.thresholds,
        transport=spec.transport.value,
    )


def variable(plan: RunPlan) -> str:
    """The plan as the value of an environment variable, in which Kubernetes would replace $(NAME)."""
    return plan.to_json().replace("$", "\\u0024")


def excess(plan: RunPlan) -> str:
    """A sentence if the plan is too large for an environment variable; else an empty text."""
    size_bytes = len(variable(plan))
    if size_bytes <= limits.PLAN_BYTES:
        return ""
    has_quarantine = any(suite.quarantine for suite in plan.suites)
    what = "files, select, env and quarantine" if has_quarantine else "files, select and env"
    return (
        f"{what} of all suites have {size_bytes} bytes, but at most {limits.PLAN_BYTES} are allowed. "
        "Use globs instead of long lists, move common variables to spec.env, or split the run into several DistTests."
    )


def unknown_suites(spec: Spec) -> tuple[str, ...]:
    """Built-in suites that this version does not have. The CRD lists none, so admission accepts any."""
    return tuple(suite.builtin for suite in spec.suites if suite.builtin and suite.builtin not in suites.BUILTIN)


def _suite_plan(suite: Suite, quarantine: tuple[str, ...]) -> SuitePlan:
    return SuitePlan(
        name=suite.name,
        builtin=suite.builtin,
        directory=naming.suite_directory(suite.name) if suite.config_map else "",
        root=UPSTREAM_ROOT if suite.files else "",
        files=suite.files,
        select=suite.select,
        env=suite.env,
        quarantine=quarantine,
    )
