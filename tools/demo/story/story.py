"""What happened in 60 nights of three series, as seeded random data, and the report of each run.

Nights count from 0; the last one is 59. A night without any other description is a good one.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict, judge
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import CaseResult, Earlier, Report, SuiteResult, judge_cases
from disttest_contract.results.thresholds import Threshold
from disttest_runner.results.verdicts import judge_bandwidth

NIGHTS = 60
LAST = NIGHTS - 1
# Suite, cases, usual seconds.
SUITES = (
    ("collectives", 45, 420.0),
    ("fully-shard-autograd", 12, 180.0),
    ("pipeline-schedules", 60, 600.0),
    ("fsdp-exec-order", 20, 240.0),
    ("replicate-compile", 25, 900.0),
    ("data-parallel", 38, 300.0),
)
POOL = tuple(f"gpu-{number:02}" for number in range(1, 9))
REGRESSION = range(18, 22)  # nights in which a change of the code broke a case, everywhere
HANG = 30
BAD_NODE, BAD_NIGHTS, FIXED = "gpu-07", range(33, 37), 38
LOST_NIGHTS = range(34, 36)  # with it in both attempts
OUTAGE = range(44, 46)  # the whole cluster was down, the operator too
NEW_TORCH = 50
USED_TO_BREAK = frozenset({8, 9, 15, 26, 27, 40, 41, 52, 56})  # nights in which an unreliable case failed

BROKEN_BY_CODE = ("fully-shard-autograd", 3)
FLAKY = ("pipeline-schedules", 17)
UNRELIABLE = ("replicate-compile", 9)
HANGS = ("data-parallel", 21)
MEASURING = ("collectives", 0)
BROKEN_LAST_NIGHT = ("data-parallel", 5)
SLOW_SHARE = 430 / 480  # of its usual bandwidth, with the bad node
SLOWER_SHARE = 0.80  # last night
COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")
SIZES = {1 << 20: 0.07, 32 << 20: 0.62, 1 << 30: 1.0}  # bytes, and their share of the bandwidth of large messages
SHARES = {"all_gather": 0.97, "all_reduce": 1.0, "all_to_all": 0.82, "reduce_scatter": 0.96}

CaseNumber = tuple[str, int]  # suite and number of the case


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """One series: the minute of the day at which its CronJob starts, usual bus bandwidth of large messages."""

    series: str
    nodes: int
    minute: int
    bus_bandwidth_bytes_per_second: float

    @property
    def threshold(self) -> Threshold:
        """Five sixths of the usual bandwidth, for all_reduce of one GiB."""
        least = int(self.bus_bandwidth_bytes_per_second * 5 / 6)
        return Threshold(collective="all_reduce", size_bytes=1 << 30, min_bus_bandwidth_bytes_per_second=least)


PLANS = (
    SeriesPlan(series="nightly-1x8", nodes=1, minute=90, bus_bandwidth_bytes_per_second=480e9),
    SeriesPlan(series="nightly-2x8", nodes=2, minute=150, bus_bandwidth_bytes_per_second=390e9),
    SeriesPlan(series="nightly-4x8", nodes=4, minute=210, bus_bandwidth_bytes_per_second=370e9),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryNight:
    """The outcome of one run of a series; without `has_results` there is no report."""

    nodes: tuple[str, ...]
    bad: Mapping[CaseNumber, Outcome] = field(default_factory=dict)
    flaky: frozenset[CaseNumber] = frozenset()
    bandwidth_share: float = 1.0
    wrong_elements: int = 0
    ending: tuple[Verdict, Reason] | None = None  # where cases do not decide
    suspects: Mapping[str, bool] = field(default_factory=dict)  # node: confirmed
    retries: int = 0
    torch: str = "2.9.0"
    queued_seconds: float = 60.0
    speed: float = 1.0  # of everything else

    @property
    def has_results(self) -> bool:
        return self.ending is None


def play(plan: SeriesPlan, number: int, *, has_bad_end: bool) -> StoryNight | None:
    """The night of a series; None if it had no run."""
    if number in OUTAGE:
        return None
    dice = random.Random(f"{plan.series} {number}")  # noqa: S311  # a story, no secret
    nodes = _nodes(plan, number, dice)
    bad: dict[CaseNumber, Outcome] = {BROKEN_BY_CODE: Outcome.FAILED} if number in REGRESSION else {}
    if plan.nodes == 1 and number in USED_TO_BREAK:
        bad[UNRELIABLE] = Outcome.FAILED
    if plan.nodes == 4 and number == HANG:
        bad[HANGS] = Outcome.HUNG
    night = StoryNight(
        nodes=nodes,
        bad=bad,
        flaky=frozenset({FLAKY}) if plan.nodes == 2 and dice.random() < 0.2 else frozenset(),
        bandwidth_share=dice.gauss(1.0, 0.006) * (1.02 if number >= NEW_TORCH else 1.0),
        torch="2.9.1" if number >= NEW_TORCH else "2.9.0",
        queued_seconds=dice.choice((20.0, 45.0, 90.0, 400.0)) * plan.nodes,
        speed=dice.uniform(0.95, 1.1),
    )
    if BAD_NODE in nodes and number in BAD_NIGHTS:
        return _on_the_bad_node(plan, night, number)
    return _last(plan, night) if has_bad_end and number == LAST else night


def _nodes(plan: SeriesPlan, number: int, dice: random.Random) -> tuple[str, ...]:
    """The bad node is part of its bad nights, and then absent until it is fixed."""
    if number in BAD_NIGHTS:
        others = [node for node in POOL if node != BAD_NODE]
        return (BAD_NODE, *sorted(dice.sample(others, plan.nodes - 1))) if plan.nodes > 1 else (dice.choice(others),)
    if number == FIXED:
        return tuple(sorted({BAD_NODE, *POOL[: plan.nodes]}, reverse=True)[: plan.nodes])
    pool = [node for node in POOL if node != BAD_NODE or number > FIXED or number < BAD_NIGHTS[0]]
    return tuple(sorted(dice.sample(pool, plan.nodes)))


def _on_the_bad_node(plan: SeriesPlan, night: StoryNight, number: int) -> StoryNight:
    """Two nodes are slow with it. Four lose it: in two nights of four the second attempt passes without it."""
    if plan.nodes == 2:
        return replace(night, bandwidth_share=night.bandwidth_share * SLOW_SHARE)
    if number in LOST_NIGHTS:
        lost = (Verdict.INFRA_FAILED, Reason.NODE_LOST)
        return replace(night, ending=lost, suspects={BAD_NODE: False}, retries=1)
    return replace(night, nodes=POOL[: plan.nodes], suspects={BAD_NODE: True}, retries=1)


def _last(plan: SeriesPlan, night: StoryNight) -> StoryNight | None:
    """One problem per series: wrong numbers, a slow fabric with a new failure, no run at all."""
    match plan.nodes:
        case 1:
            wrong = {MEASURING: Outcome.FAILED}
            return replace(night, bad=wrong, wrong_elements=12, suspects={"gpu-03": False}, retries=1)
        case 2:
            return replace(night, bad={BROKEN_LAST_NIGHT: Outcome.FAILED}, bandwidth_share=SLOWER_SHARE)
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryRun:
    """One run of the story, created at `created`."""

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


def report_of(run: StoryRun, namespace: str) -> Report:
    suites = tuple(_suite(run, name, count, seconds) for name, count, seconds in SUITES)
    verdict, reason = judge(Counts.sum(suite.counts for suite in suites))
    started, ended = run.started.timestamp(), run.ended.timestamp()
    return Report(
        namespace=namespace,
        name=run.name,
        uid=run.name,
        attempt=1,
        backend="nccl",
        nodes=run.plan.nodes,
        ranks_per_node=8,
        node_names=run.night.nodes,
        versions={"torch": run.night.torch, "nccl": "2.27.5"},
        verdict=verdict,
        reason=reason,
        message="",
        started=started,
        joined=started,
        first_case=started,
        last_case=ended,
        finished=ended,
        generations=1,
        suites=suites,
        preflight=(NodeFacts(gpus=("NVIDIA H100 80GB HBM3",) * 8),) * run.plan.nodes,
    )


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
    return judge_bandwidth(case, (run.plan.threshold,))


def _measurements(run: StoryRun) -> tuple[Measurement, ...]:
    return tuple(_measurement(run, name, size, share) for name in COLLECTIVES for size, share in SIZES.items())


def _measurement(run: StoryRun, collective: str, size: int, share: float) -> Measurement:
    bus = run.plan.bus_bandwidth_bytes_per_second * run.night.bandwidth_share * share * SHARES[collective]
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
        bus_bandwidth_bytes_per_second=bus,
        wrong_elements=run.night.wrong_elements if is_wrong else 0,
    )
