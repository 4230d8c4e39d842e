"""The result of one case over all ranks: its last try, and the earlier ones."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Counts, Outcome, Reason, Verdict, judge
from disttest_contract.results.measurement import Measurement
from disttest_contract.text import escaping
from disttest_contract.text.json_values import Message, PlainRecord, Ranks, Seconds3, Seconds4

INTERRUPTED = "interrupted"
HEADING_BYTES = 512  # of a case's id


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(PlainRecord):
    """Observations of ranks that waited for each other. `artifacts` is the folder of the full data, if it was kept."""

    OMITS_EMPTY = True

    summary: Message = ""  # one sentence: which ranks wait in which collective, and which never joined it
    states: Mapping[int, str] = field(default_factory=dict)  # rank -> what it was doing
    native: Mapping[int, str] = field(default_factory=dict)  # rank -> stacks with C frames
    ras: str = ""  # output of NCCL's RAS service
    artifacts: str = ""


def heading(suite: str, case_id: str) -> str:
    """Return the line above the output of a rank in an agent's log."""
    return f"==> {suite}: {escaping.line(limits.cut(case_id, HEADING_BYTES))} <=="


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier(PlainRecord):
    """A try before the last one."""

    outcome: Outcome
    seconds: Seconds4
    message: Message = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


class RankEnding(StrEnum):
    """How a case ended for one rank: an outcome, or one that only a single rank can have."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    CRASHED = "crashed"  # its process ended
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    UNFINISHED = "unfinished"  # still running when the ranks were stopped
    IDLE = "idle"  # it takes no part in this case


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup(PlainRecord):
    """Ranks with the same ending and message."""

    OMITS_EMPTY = True

    ranks: Ranks
    ending: RankEnding
    message: Message = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult(PlainRecord):
    """One case over all ranks. `ranks` and `nodes` are those at fault; empty if all agree on a good outcome.

    `by_rank` is set if ranks ended differently or badly: each rank is in one group at most, and without room for all
    groups the last ones are missing.
    """

    OMITS_EMPTY = True  # thousands of passed cases are id, outcome and seconds

    id: str
    outcome: Outcome
    seconds: Seconds4
    at: Seconds3 | None = None  # seconds from the start of the attempt to the start of the last try
    message: Message = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    by_rank: tuple[RankGroup, ...] = ()
    signal: str = ""  # SIGSEGV …, if one killed a rank
    exit_code: int | None = None  # if a rank exited
    stacks: Mapping[int, str] = field(default_factory=dict)  # rank -> Python stacks, of a hang
    logs: Mapping[int, str] = field(default_factory=dict)  # rank -> log records and warnings, of one that failed
    diagnosis: Diagnosis | None = None  # of a case in which ranks waited for each other
    earlier: tuple[Earlier, ...] = ()  # tries before this one, oldest first
    measurements: tuple[Measurement, ...] = ()
    quarantined: bool = False  # it is in quarantine, independent of its outcome

    @property
    def is_flaky(self) -> bool:
        """Whether it passed after a bad try."""
        return self.outcome is Outcome.PASSED and any(one.outcome in BAD for one in self.earlier)

    @property
    def is_red(self) -> bool:
        """Whether it ended badly and is not in quarantine."""
        return self.outcome in BAD and not self.quarantined

    @property
    def is_excused(self) -> bool:
        return self.outcome in BAD and self.quarantined

    @property
    def is_interrupted(self) -> bool:
        """Whether the run ended while it was running: by its deadline or a signal, for example."""
        return self.outcome is Outcome.NOT_RUN and self.at is not None

    @property
    def ending(self) -> str:
        """The outcome as users read it."""
        return INTERRUPTED if self.is_interrupted else self.outcome.value


def judge_cases(cases: Iterable[CaseResult]) -> tuple[Verdict, Reason]:
    """Return the verdict of cases that have run; bad ones in quarantine do not count."""
    seen = tuple(cases)
    return judge(Counts.of(case.outcome for case in seen), Counter(case.outcome for case in seen if case.is_excused))
