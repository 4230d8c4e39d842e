"""One row of the table of endings, and what many rows share."""

from dataclasses import dataclass

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.observed.evidence import Evidence, ReportLost
from disttest_operator.core.observed.objects import EventView, NodeView
from disttest_operator.core.verdict.rule import Retry
from tests.support.builders.runs import a_bad_report, a_spec, a_summary, a_test, an_ended_pod

ENDED = (an_ended_pod(0, 0, summary=a_summary(report_sha256="x")), an_ended_pod(1, 0))
LOST = ReportLost(problem="the leader's log contains no report")
INVALID = ReportLost(problem="the report claims Passed, but", is_invalid=True)
OWN_IMAGE = a_test(spec=a_spec(image="mine:1"))
GPUS = a_test(spec=a_spec(gpus_per_node=8, ranks_per_node=8))
SMALL_NODES = (NodeView(name="n", labels={}, allocatable={"nvidia.com/gpu": "4"}),)
TERMINATED = a_bad_report(Verdict.INFRA_FAILED, Reason.TERMINATED)
GANG_LOST = a_bad_report(Verdict.INFRA_FAILED, Reason.GANG_LOST, "agent 1 went away")
ALONE = a_bad_report(Verdict.INFRA_FAILED, Reason.RENDEZVOUS_TIMEOUT)
REFUSAL = EventView(reason="FailedCreate", message="pods is forbidden: exceeded quota", about="Job nightly-a1")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingRow:
    evidence: Evidence
    verdict: Verdict
    reason: Reason
    words: str
    retry: Retry = Retry.NEVER
    blamed: tuple[str, ...] = ()
