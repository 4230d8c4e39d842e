"""Geometry of the timeline in percent: a lane with the steps of the run, and one with the cases of each suite."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from disttest_cli.formats.subject import STEPS, Subject
from disttest_cli.formats.values import count, duration, known
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report, SuiteResult

NARROWEST = 0.25  # smallest width of a bar in percent
SLOW_SHARE = 0.015  # share of the total time above which a case has a separate bar
BARS = 400  # of a lane; further cases are merged
TICKS = 8
NICE_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
BEFORE = ("queued", "scheduled", "pulled")  # steps before the start of the leader's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """`kind` is an outcome, `good`, `slow` or the name of a step; `cases` is the number of merged cases."""

    x: float
    width: float
    kind: str
    title: str
    cases: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    name: str
    summary: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """`ticks` are (percent, label); `steps` are (name, duration, meaning) for the table."""

    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str], ...]
    steps: tuple[tuple[str, str, str], ...]
    untimed: int


@dataclass(frozen=True, slots=True)
class Scale:
    """Converts seconds since the start to percent of `whole` seconds."""

    whole: float

    def bar(self, begin: float, end: float, kind: str, title: str, *, cases: int = 0) -> Bar:
        x = min(max(begin / self.whole * 100, 0.0), 100 - NARROWEST)
        width = min(max((end - begin) / self.whole * 100, NARROWEST), 100 - x)
        return Bar(x=round(x, 3), width=round(width, 3), kind=kind, title=title, cases=cases)


def timeline(subject: Subject) -> Timeline:
    """The operator's steps come first, if known; the leader's clock starts when the pods run."""
    report = subject.report
    steps = [(name, seconds) for name in STEPS if (seconds := known(subject.steps.get(name))) is not None]
    before = sum(seconds for name, seconds in steps if name in BEFORE)
    leader = _leader(report)
    spans = [(name, end - begin) for name, begin, end in leader]
    ends = [before + leader[-1][2] if leader else 0.0, sum(seconds for _, seconds in steps)]
    scale = Scale(max(*ends, 1e-3))
    lanes = [
        *([Lane(name="run", summary=_longest(steps), bars=tuple(_steps(steps, scale)))] if steps else []),
        *([Lane(name="gang", summary=_longest(spans), bars=tuple(_phases(leader, before, scale)))] if leader else []),
        *(lane(suite, before, scale) for suite in report.suites),
    ]
    untimed = sum(known(case.at) is None for suite in report.suites for case in suite.cases)
    return Timeline(lanes=tuple(lanes), ticks=ticks(scale.whole), steps=_table(steps, leader), untimed=untimed)


def lane(suite: SuiteResult, before: float, scale: Scale) -> Lane:
    """Consecutive good cases share a bar; failed and slow cases have separate bars on top."""
    timed = [case for case in suite.cases if known(case.at) is not None and known(case.seconds) is not None]
    slow = scale.whole * SLOW_SHARE
    plain = [case for case in timed if not case.is_red and case.seconds < slow]
    notable = [case for case in timed if case.is_red or case.seconds >= slow]
    single, rest = notable[:BARS], notable[BARS:]
    bars = [
        *(merged(run, before, scale) for run in runs([*plain, *rest], scale.whole * NARROWEST / 100)),
        *(_single(case, before, scale) for case in sorted(single, key=lambda case: case.is_red)),
    ]
    return Lane(name=suite.name, summary=_summary(suite), bars=tuple(bars))


def runs(cases: Iterable[CaseResult], gap_seconds: float) -> Iterator[list[CaseResult]]:
    current: list[CaseResult] = []
    end = 0.0
    for case in sorted(cases, key=lambda case: case.at or 0.0):
        at = case.at or 0.0
        if current and at - end > gap_seconds:
            yield current
            current = []
        end = max(end, at + case.seconds) if current else at + case.seconds
        current.append(case)
    if current:
        yield current


def merged(run: Sequence[CaseResult], before: float, scale: Scale) -> Bar:
    begin = run[0].at or 0.0
    end = max((case.at or 0.0) + case.seconds for case in run)
    red = sum(case.is_red for case in run)
    title = f"{count(len(run), 'case')}, {duration(end - begin)}" + (f", {red} failed" if red else "")
    return scale.bar(before + begin, before + end, "failed" if red else "good", title, cases=len(run))


def ticks(whole: float) -> tuple[tuple[float, str], ...]:
    step = next((nice for nice in NICE_SECONDS if whole / nice <= TICKS), whole / TICKS)
    return tuple(
        (round(number * step / whole * 100, 3), _clock(number * step)) for number in range(int(whole / step) + 1)
    )


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes, rest = int(seconds) // 3600, int(seconds) % 3600 // 60, int(seconds) % 60
    return f"{hours}:{minutes:02d} h" if hours else f"{minutes}:{rest:02d} min"


def _single(case: CaseResult, before: float, scale: Scale) -> Bar:
    kind = case.outcome.value if case.is_red else "slow"
    begin = before + (case.at or 0.0)
    title = f"{case.outcome.value}: {case.id}, {duration(case.seconds)}"
    return scale.bar(begin, begin + case.seconds, kind, title, cases=1)


def _leader(report: Report) -> list[tuple[str, float, float]]:
    """Return (phase, begin, end) in seconds since the leader's start, without impossible times."""
    marks = (
        ("pods join", report.joined),
        ("ranks start", report.first_case),
        ("cases", report.last_case),
        ("report", report.finished),
    )
    found, begin = [], 0.0
    for name, time in marks:
        end = known(time - report.started) if time is not None else None
        if end is not None and end >= begin:
            found.append((name, begin, end))
            begin = end
    return found


def _longest(steps: Sequence[tuple[str, float]]) -> str:
    least = sorted((seconds for _, seconds in steps), reverse=True)[:2][-1]
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in steps if seconds >= least)


def _steps(steps: Sequence[tuple[str, float]], scale: Scale) -> Iterator[Bar]:
    begin = 0.0
    for name, seconds in steps:
        yield scale.bar(begin, begin + seconds, name, f"{name}: {duration(seconds)}")
        begin += seconds


def _phases(leader: Sequence[tuple[str, float, float]], before: float, scale: Scale) -> Iterator[Bar]:
    for number, (name, begin, end) in enumerate(leader):
        yield scale.bar(before + begin, before + end, f"phase-{number % 4}", f"{name}: {duration(end - begin)}")


MEANINGS = {
    "queued": "from the creation of the run to the creation of the pods",
    "scheduled": "until the last pod had a node",
    "pulled": "until the last container was running",
    "joined": "until all pods were connected to the leader",
    "ran": "until the last case ended",
    "collected": "until the report was stored",
}


def _table(
    steps: Sequence[tuple[str, float]], leader: Sequence[tuple[str, float, float]]
) -> tuple[tuple[str, str, str], ...]:
    own = [(name, duration(end - begin), "measured by the leader") for name, begin, end in leader]
    return (*((name, duration(seconds), MEANINGS[name]) for name, seconds in steps), *own)


def _summary(suite: SuiteResult) -> str:
    bad = sum(case.is_red for case in suite.cases)
    return f"{count(len(suite.cases), 'case')}" + (f", {bad} failed" if bad else "")
