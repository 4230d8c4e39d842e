"""Decide the outcome of a case and the ranks at fault, from what ranks reported and how they ended. Pure."""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from disttest_contract.outcomes import BAD, Outcome, worst
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import CaseResult
from disttest_runner.diagnosis import wording
from disttest_runner.diagnosis.observation import RankObservation

MAX_STACKS = 64  # of one case in the report

ABORTED = -signal.SIGABRT

# Errors of ranks whose peer died or failed: consequences, not causes.
VICTIM_WORDS = (
    "Connection closed by peer",  # gloo, a peer's process ended
    "Connection reset by peer",  # the kernel
    "Broken pipe",  # same
    "Socket closed",  # gloo
    "Read error [",  # gloo, with the address of the peer
    "Write error [",  # same
    "Read timeout [",  # same
    "Application timeout caused pair closure",  # gloo, a peer was later than the timeout of the group
    "Connection was likely closed",  # the store's client: its server, in rank 0, is gone
    "Did the remote server shutdown or crash",  # same
    "Socket unexpectedly closed",  # same
    "sendBytes failed on SocketImpl",  # same
    "recvValue failed on SocketImpl",  # same
    "ncclRemoteError",  # NCCL
    "remote process exiting prematurely",  # NCCL, in the explanation of it
    "remote process exited or there was a network error",  # NCCL, its name in words
    "Connection closed by remote peer",  # NCCL, in the details of ncclSystemError
    "Watchdog caught collective operation timeout",  # torch, for NCCL: others have not joined, or do not transfer
    "collective timeout or exception",  # torch, also where the watchdog of another rank found it
    "This is typically caused by a remote worker",  # RPC
    "NCCL communicator was aborted on rank",  # torch, a communicator was aborted
)
# Torch's watchdog of NCCL writes one of these before it aborts the process.
WATCHDOG_ENDS = (
    b"Process group watchdog thread terminated with exception: ",
    b"Terminating the process after attempting to dump debug info, due to ",
)
DETAILS = "Last error:"  # in the next line
CAUSE_CHARACTERS = 500
IDLE: Final = "idle"  # on the wire, instead of an outcome


class WaitEnd(StrEnum):
    """Why waiting for the ranks ended."""

    ALL = "all"  # all ranks have answered
    DIED = "died"  # a rank's process ended
    GRACE = "grace"  # a rank failed, and the others did not finish within the grace period
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"  # the run ended


@dataclass(frozen=True, slots=True)
class RankReport:
    outcome: Outcome | None  # None: the rank takes no part in this case
    message: str
    log: str = ""  # records and warnings, if it failed

    @classmethod
    def read(cls, words: Sequence[str]) -> Self:
        """Parse outcome, message and an optional log from the wire. Raises ValueError for an unknown outcome."""
        outcome, *texts = words
        return cls(None if outcome == IDLE else Outcome(outcome), *texts)


@dataclass(slots=True)
class AbortCause:
    """Why torch's watchdog aborts a process, from the lines that the process writes; empty if it has not."""

    text: str = ""
    _is_explained: bool = False  # the next lines may have the name of NCCL's error and its details

    def read(self, line: bytes) -> None:
        """Keep the first cause and the lines that explain it."""
        if self._is_explained:
            self._explain(line)
        elif not self.text:
            for marker in WATCHDOG_ENDS:
                _, found, cause = line.partition(marker)
                if found:
                    self._add(cause)
                    self._is_explained = True

    def _explain(self, line: bytes) -> None:
        is_detail = self.text.endswith(DETAILS)
        self._is_explained = not is_detail and line.startswith((b"nccl", DETAILS.encode()))
        if is_detail or self._is_explained:
            self._add(line)

    def _add(self, line: bytes) -> None:
        words = line[:CAUSE_CHARACTERS].decode(errors="replace").strip()
        self.text = f"{self.text} {words}".strip()[:CAUSE_CHARACTERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvidence:
    end: WaitEnd
    seconds: float
    said: Mapping[int, RankReport]
    exits: Mapping[int, int] = field(
        default_factory=dict
    )  # rank -> exit code or negative signal, in the order in which they ended
    exit_causes: Mapping[int, str] = field(default_factory=dict)  # rank -> cause, if its agent has found one
    logs: Mapping[int, str] = field(default_factory=dict)  # rank -> end of NCCL's log, of one without a result
    failed_first: frozenset[int] = frozenset()  # ranks that had failed before any process ended
    seen: Mapping[int, RankObservation] = field(default_factory=dict)  # what ranks were doing when waiting ended


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    node_names: tuple[str, ...]
    ranks_per_node: int

    @property
    def size(self) -> int:
        return len(self.node_names) * self.ranks_per_node

    def node(self, rank: int) -> str:
        return self.node_names[rank // self.ranks_per_node]

    def nodes(self, ranks: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.node(rank) for rank in ranks))


def judge_case(case_id: str, evidence: CaseEvidence, world: World) -> CaseResult:
    """A crash outweighs a failure, a failure outweighs ranks that did not finish, and these alone are a hang."""
    causes = {rank for rank in evidence.failed_first if not is_victim(evidence.said[rank].message)}
    if causes and all(status == ABORTED for status in evidence.exits.values()):
        return _failed(case_id, evidence, world, tuple(sorted(causes)))
    if evidence.exits:
        return _died(case_id, evidence, world)
    failed = tuple(sorted(rank for rank, said in evidence.said.items() if said.outcome in BAD))
    if failed:
        return _failed(case_id, evidence, world, failed)
    if len(evidence.said) < world.size:
        return _hung(case_id, evidence, world)
    votes = [said.outcome for said in evidence.said.values() if said.outcome is not None]
    outcome = worst(votes, len(votes))
    message = next((said.message for said in evidence.said.values() if said.outcome is outcome and said.message), "")
    if not votes:
        message = "no rank takes part in this case"
    odd = tuple(sorted(rank for rank, said in evidence.said.items() if said.outcome is outcome))
    all_agree = len(odd) == len(votes)
    return CaseResult(
        id=case_id,
        outcome=outcome,
        seconds=evidence.seconds,
        message=message,
        ranks=() if all_agree or outcome is Outcome.PASSED else odd,
    )


def needs_new_gang(result: CaseResult) -> bool:
    """Whether the gang must be replaced: after a bad end the collectives of ranks can be out of step."""
    return result.outcome in BAD


def _died(case_id: str, evidence: CaseEvidence, world: World) -> CaseResult:
    """If every process ended because it waited for others, the cause is one of these."""
    if not waits_for_others(evidence):
        return _crashed(case_id, evidence, world)
    failed = [rank for rank, said in evidence.said.items() if said.outcome in BAD and not is_victim(said.message)]
    if failed:
        return _failed(case_id, evidence, world, tuple(sorted(failed)))
    if evidence.exits.keys() >= set(unfinished(evidence, world)):
        return _crashed(case_id, evidence, world)
    return _waited_for(case_id, evidence, world)


def waits_for_others(evidence: CaseEvidence) -> bool:
    """Whether torch's watchdog aborted every process that ended, and names other ranks as the cause."""
    return bool(evidence.exits) and not _own_ends(evidence)


def _own_ends(evidence: CaseEvidence) -> dict[int, int]:
    """Return the exits that the watchdog does not explain by other ranks."""
    return {
        rank: status
        for rank, status in evidence.exits.items()
        if status != ABORTED or not is_victim(evidence.exit_causes.get(rank, ""))
    }


def _waited_for(case_id: str, evidence: CaseEvidence, world: World) -> CaseResult:
    """Ranks that still run without waiting are at fault; if all of them wait, nothing proves who is."""
    waiting = unfinished(evidence, world)
    left = [rank for rank in waiting if rank not in evidence.exits]
    proven, diagnosis = diagnosed(evidence, world)
    busy = tuple(rank for rank in left if rank not in evidence.seen or not evidence.seen[rank].is_waiting)
    culprits = tuple(rank for rank in proven if rank in left) or busy or waiting
    aborted = sorted(evidence.exits)
    late = [rank for rank in culprits if rank in left]
    message = (
        f"{name_ranks(late, world)} had not finished when torch aborted {name_ranks(aborted, world)}: "
        f"{evidence.exit_causes[aborted[0]]}"
    )
    return CaseResult(
        id=case_id,
        outcome=Outcome.HUNG,
        seconds=evidence.seconds,
        message=f"{message}\n{diagnosis.summary}" if diagnosis.summary else message,
        ranks=culprits,
        nodes=world.nodes(culprits),
        stacks=stacks_of([*culprits, *left], evidence),
        diagnosis=diagnosis if evidence.seen else None,
    )


def _crashed(case_id: str, evidence: CaseEvidence, world: World) -> CaseResult:
    """Ranks that aborted after another one had died in another way, or waiting for it, are not at fault."""
    ends = _own_ends(evidence) or evidence.exits
    first_status = next(iter(ends.values()))
    causes = {rank: status for rank, status in ends.items() if status != ABORTED or first_status == ABORTED}
    ranks = tuple(sorted(causes))
    endings = {how_it_ended(causes[rank]): rank for rank in reversed(ranks)}
    status = causes[ranks[0]]
    how = " or ".join(reversed(endings))
    if len(ranks) > 1:
        how = how.replace("was killed", "were killed")
    known = [evidence.exit_causes[rank] for rank in ranks if rank in evidence.exit_causes]
    why = "".join(f": {cause}" for cause in dict.fromkeys(known))
    return CaseResult(
        id=case_id,
        outcome=Outcome.CRASHED,
        seconds=evidence.seconds,
        message=f"{name_ranks(ranks, world)} {how} during the case{why}{_aborted(evidence, world, ranks)}",
        ranks=ranks,
        nodes=world.nodes(ranks),
        signal=signal_name(status) if status < 0 else "",
        exit_code=status if status >= 0 else None,
    )


def _aborted(evidence: CaseEvidence, world: World, causes: Iterable[int]) -> str:
    """Name the ranks that torch aborted because their peer had ended."""
    victims = sorted(evidence.exits.keys() - set(causes))
    return f"\n({name_ranks(victims, world)} aborted because of it)" if victims else ""


def _failed(case_id: str, evidence: CaseEvidence, world: World, failed: tuple[int, ...]) -> CaseResult:
    culprits = tuple(rank for rank in failed if not is_victim(evidence.said[rank].message)) or failed
    outcome = worst((bad for rank in culprits if (bad := evidence.said[rank].outcome) is not None), len(culprits))
    culprits = tuple(rank for rank in culprits if evidence.said[rank].outcome is outcome)
    message = f"{name_ranks(culprits, world)}:\n{evidence.said[culprits[0]].message}"
    waiting = [rank for rank in unfinished(evidence, world) if rank not in evidence.exits]
    if waiting:
        message = f"{message}\n({name_ranks(waiting, world)} had not finished when this rank failed, and were stopped)"
    message += _aborted(evidence, world, ())
    return CaseResult(
        id=case_id,
        outcome=outcome,
        seconds=evidence.seconds,
        message=message,
        ranks=culprits,
        nodes=world.nodes(culprits),
        diagnosis=diagnosed(evidence, world)[1] if waiting and evidence.seen else None,
    )


def _hung(case_id: str, evidence: CaseEvidence, world: World) -> CaseResult:
    """Ranks that wait for others are not at fault; if no rank is proven to be, all unfinished ones are named."""
    waiting = unfinished(evidence, world)
    proven, diagnosis = diagnosed(evidence, world)
    late = f"{name_ranks(waiting, world)} had not finished after {evidence.seconds:.0f} s"
    culprits = proven or waiting
    return CaseResult(
        id=case_id,
        outcome=Outcome.HUNG,
        seconds=evidence.seconds,
        message=f"{diagnosis.summary}\n({late})" if diagnosis.summary else late,
        ranks=culprits,
        nodes=world.nodes(culprits),
        stacks=stacks_of([*culprits, *waiting], evidence),
        diagnosis=diagnosis if evidence.seen else None,
    )


def stacks_of(ranks: Iterable[int], evidence: CaseEvidence) -> dict[int, str]:
    """Return the stacks of the first ranks, up to MAX_STACKS."""
    stacks = {rank: one.stack for rank in dict.fromkeys(ranks) if (one := evidence.seen.get(rank)) and one.stack}
    return dict(list(stacks.items())[:MAX_STACKS])


def unfinished(evidence: CaseEvidence, world: World) -> tuple[int, ...]:
    return tuple(rank for rank in range(world.size) if rank not in evidence.said)


def diagnosed(evidence: CaseEvidence, world: World) -> tuple[tuple[int, ...], Diagnosis]:
    """Return the ranks that the others provably wait for, and what each rank was doing."""
    finished = {rank: said.outcome.value for rank, said in evidence.said.items() if said.outcome is not None}
    return wording.diagnose(
        evidence.seen,
        unfinished=unfinished(evidence, world),
        finished=finished,
        name=lambda ranks: name_ranks(ranks, world),
    )


def is_victim(message: str) -> bool:
    return any(words in message for words in VICTIM_WORDS)


def name_ranks(ranks: Iterable[int], world: World) -> str:
    """`rank 3 on node-b`, `ranks 0, 1 on node-a, node-b`."""
    ranks = list(ranks)
    return f"{wording.brief(ranks)} on {wording.shown(world.nodes(ranks), wording.NAMED_RANKS)}"


def how_it_ended(status: int) -> str:
    return f"was killed by {signal_name(status)}" if status < 0 else f"exited with code {status}"


def signal_name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
