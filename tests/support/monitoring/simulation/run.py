"""One run of the story: when its steps were, and the report that its leader wrote."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from disttest_contract.outcomes import Outcome
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import CaseResult, Earlier, Report, SuiteResult, judge_cases
from disttest_runner.results.thresholds import judged
from tests.support.builders.runs import a_report_of
from tests.support.monitoring.simulation.story import MEASURING, SUITES, CaseNumber, SeriesPlan, StoryNight

COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")
SIZES = {1 << 20: 0.07, 32 << 20: 0.62, 1 << 30: 1.0}  # bytes, and their share of the bandwidth of large messages
SHARES = {"all_gather": 0.97, "all_reduce": 1.0, "all_to_all": 0.82, "reduce_scatter": 0.96}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryRun:
    """One run of the story, and when it was made."""

    plan: SeriesPlan
    number: int
    night: StoryNight
    created: datetime

    @property
    def name(self) -> str:
        return f"{self.plan.series}-{self.number:02}"

    @property
    def steps(self) -> dict[str, float]:
        ran = sum(seconds for _, _, seconds in SUITES) * self.night.speed
        return {
            "queued": self.night.queued_seconds,
            "scheduled": 4.0 * self.plan.nodes,
            "pulled": 35.0,
            "joined": 12.0,
            "ran": round(ran, 1),
            "collected": 9.0,
        }

    @property
    def started(self) -> datetime:
        steps = self.steps
        return self.created + timedelta(seconds=steps["queued"] + steps["scheduled"] + steps["pulled"])

    @property
    def ended(self) -> datetime:
        return self.created + timedelta(seconds=sum(self.steps.values()))


def report_of(run: StoryRun) -> Report:
    suites = tuple(_suite(run, name, count, seconds) for name, count, seconds in SUITES)
    node = NodeFacts(gpus=("NVIDIA H100 80GB HBM3",) * 8)
    versions = {"torch": run.night.torch, "nccl": "2.27.5"}
    return replace(a_report_of(suites=suites), backend="nccl", versions=versions, preflight=(node,) * run.plan.nodes)


def _suite(run: StoryRun, name: str, count: int, seconds: float) -> SuiteResult:
    cases = tuple(_case(run, (name, number)) for number in range(count))
    verdict, reason = judge_cases(cases)
    return SuiteResult(
        name=name, verdict=verdict, reason=reason, seconds=round(seconds * run.night.speed, 1), cases=cases
    )


def _case(run: StoryRun, key: CaseNumber) -> CaseResult:
    suite, number = key
    measurements = _measurements(run) if key == MEASURING else ()
    case = CaseResult(
        id=f"{suite.replace('-', '_')}.py::test_{number:02}",
        outcome=run.night.bad.get(key, Outcome.PASSED),
        seconds=2.0,
        message="as the story goes" if key in run.night.bad else "",
        measurements=measurements,
    )
    if key in run.night.flaky:
        return replace(case, earlier=(Earlier(outcome=Outcome.FAILED, seconds=2.0, message="at first"),))
    return judged(case, (run.plan.threshold,))


def _measurements(run: StoryRun) -> tuple[Measurement, ...]:
    return tuple(_measurement(run, name, size, share) for name in COLLECTIVES for size, share in SIZES.items())


def _measurement(run: StoryRun, collective: str, size: int, share: float) -> Measurement:
    bus = run.plan.bus_bytes_per_second * run.night.bandwidth_share * share * SHARES[collective]
    seconds = 1.9 * size / bus
    is_wrong = collective == "all_gather" and size == 32 << 20
    return Measurement(
        collective=collective,
        dtype="bfloat16",
        size_bytes=size,
        ranks=8 * run.plan.nodes,
        iterations=20,
        seconds=seconds,
        fastest_rank_seconds=seconds * 0.98,
        slowest_rank_seconds=seconds * (1.05 if run.night.bandwidth_share > 0.9 else 1.3),
        slowest_rank=1,
        alg_bytes_per_second=size / seconds,
        bus_bytes_per_second=bus,
        wrong_elements=run.night.wrong_elements if is_wrong else 0,
    )
