"""The input of formats: a report and the status of its run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from disttest_contract.results.report import Report

STEPS = ("queued", "scheduled", "pulled", "joined", "ran", "collected")  # of an attempt, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """`status` is that of the DistTest; empty for a report from a file and for a deleted run.

    Formats use `stepSeconds` (queued, scheduled, pulled, joined, ran, collected), `attempts` and `suspectNodes`.
    """

    report: Report
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> Mapping[str, float]:
        """Seconds of the steps of the last attempt, in order, by the operator's clock."""
        return self.status.get("stepSeconds") or {}
