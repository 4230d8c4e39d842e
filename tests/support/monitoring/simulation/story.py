"""What happened in 60 nights of three series, and why: data and dice, the same at every play.

Nights count from 0; the last one is 59. A night that nobody tells of otherwise is a good one.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.thresholds import Threshold

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
BAD_NODE, BAD_NIGHTS, MENDED = "gpu-07", range(33, 37), 38
LOST_NIGHTS = range(34, 36)  # with it in both attempts
OUTAGE = range(44, 46)  # the whole cluster was down, the operator too
NEW_TORCH = 50
USED_TO_BREAK = frozenset({8, 9, 15, 26, 27, 40, 41, 52, 56})  # nights of a case that nobody can rely on

BROKEN_BY_CODE = ("fully-shard-autograd", 3)
FLAKY = ("pipeline-schedules", 17)
UNRELIABLE = ("replicate-compile", 9)
HANGS = ("data-parallel", 21)
MEASURING = ("collectives", 0)
BROKEN_LAST_NIGHT = ("data-parallel", 5)
SLOW_SHARE = 430 / 480  # of its usual bandwidth, with the bad node
SLOWER_SHARE = 0.80  # last night

CaseNumber = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """One series: `minute` of the day at which its CronJob begins, usual bus bandwidth of large messages."""

    series: str
    nodes: int
    minute: int
    bus_bytes_per_second: float

    @property
    def threshold(self) -> Threshold:
        """For all_reduce of one GiB: what it reaches usually, less a sixth."""
        least = int(self.bus_bytes_per_second * 5 / 6)
        return Threshold(collective="all_reduce", size_bytes=1 << 30, min_bus_bandwidth_bytes_per_second=least)


PLANS = (
    SeriesPlan(series="nightly-1x8", nodes=1, minute=90, bus_bytes_per_second=480e9),
    SeriesPlan(series="nightly-2x8", nodes=2, minute=150, bus_bytes_per_second=390e9),
    SeriesPlan(series="nightly-4x8", nodes=4, minute=210, bus_bytes_per_second=370e9),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryNight:
    """What one run of a series came to. `bad` and `flaky` are cases; without `has_results` there is no report."""

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
    """None: no run was made."""
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
    """The bad node is there when the story needs it, and not again until it is mended."""
    if number in BAD_NIGHTS:
        others = [node for node in POOL if node != BAD_NODE]
        return (BAD_NODE, *sorted(dice.sample(others, plan.nodes - 1))) if plan.nodes > 1 else (dice.choice(others),)
    if number == MENDED:
        return tuple(sorted({BAD_NODE, *POOL[: plan.nodes]}, reverse=True)[: plan.nodes])
    pool = [node for node in POOL if node != BAD_NODE or number > MENDED or number < BAD_NIGHTS[0]]
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
    """Something of everything: wrong numbers, a slow fabric with a new failure, and a night that never came."""
    match plan.nodes:
        case 1:
            wrong = {MEASURING: Outcome.FAILED}
            return replace(night, bad=wrong, wrong_elements=12, suspects={"gpu-03": False}, retries=1)
        case 2:
            return replace(night, bad={BROKEN_LAST_NIGHT: Outcome.FAILED}, bandwidth_share=SLOWER_SHARE)
        case _:
            return None
