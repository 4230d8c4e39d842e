"""Runs of one series for unit tests, folded as the operator does it."""

from typing import Any

from disttest_contract.outcomes import Reason, Verdict, judge
from disttest_contract.results.report import CaseResult, Report
from disttest_operator.core.api.model import Suite
from disttest_operator.core.observed.evidence import ReportFound
from disttest_operator.core.series import ledger, run_results
from disttest_operator.core.status import status
from disttest_operator.core.verdict.rule import Ending
from tests.support.builders.runs import a_pod, a_report_of, a_spec, a_test, at, evidence

DAY_SECONDS = 86400


class Nights:
    """A series and its ledger. Each run is a day after the one before, settled unless it is to stay pending."""

    def __init__(self, *suites: str) -> None:
        named = suites or ("collectives",)
        self.spec = a_spec(suites=tuple(Suite(name=name, builtin=name) for name in named))
        self.ledger: ledger.Status = {}
        self.count = 0

    def run(self, *cases: CaseResult, verdict: Verdict | None = None, **status_changes: Any) -> None:
        """One suite with these cases; its verdict is that of the cases unless another is given."""
        self.report(a_report_of(*cases), verdict=verdict, **status_changes)

    def report(
        self,
        report: Report | None,
        *,
        verdict: Verdict | None = None,
        nodes: tuple[str, ...] = ("node0", "node1"),
        is_settled: bool = True,
        **status_changes: Any,
    ) -> None:
        judged, reason = judge(report.counts) if report else (Verdict.INFRA_FAILED, Reason.REPORT_MISSING)
        look = evidence(
            *(a_pod(index, node=node) for index, node in enumerate(nodes)),
            test=a_test(spec=self.spec),
            report=ReportFound(report=report, raw=b"", sha256="ab" * 32) if report else None,
            seconds=25 + self.count * DAY_SECONDS,
        )
        ending = Ending(verdict=verdict or judged, reason=reason, message="as it was")
        last = status.finished(look, ending) | status_changes
        uid = f"u{self.count}"
        entry = ledger.make_entry(uid=uid, name=f"night-{self.count}", status=last)
        self.ledger = ledger.fold(self.ledger, entry, run_results.of(look, last), nodes=len(nodes))
        if is_settled:
            self.ledger = ledger.settle(self.ledger, [uid])
        self.count += 1

    def listed(self, name: str) -> list[str]:
        """Cases of a list, in its order."""
        return [row["case"] for row in self.ledger[name]]


def time_of(night: int) -> str:
    """Of the verdict of that run, counted from 0."""
    return at(25 + night * DAY_SECONDS).strftime("%Y-%m-%dT%H:%M:%SZ")
