"""The ranks at fault in a case: tables of what ranks reported and how they ended."""

import json
import signal
from typing import Any

import pytest

from disttest_contract.outcomes import Outcome
from disttest_runner.diagnosis.observation import RankObservation, StackPlace
from disttest_runner.results.blame import (
    AbortCause,
    CaseEvidence,
    RankReport,
    WaitEnd,
    World,
    is_victim,
    judge_case,
    name_ranks,
    needs_new_gang,
)
from tests.support.paths import ROOT

WORLD = World(node_names=("node-a", "node-b"), ranks_per_node=2)
PASSED = RankReport(Outcome.PASSED, "")
FAILED = RankReport(Outcome.FAILED, "AssertionError: 1 != 2")
VICTIM = RankReport(Outcome.FAILED, "RuntimeError: Connection closed by peer [10.0.0.2]:4711")
ERRORED = RankReport(Outcome.ERRORED, "fixture broke")
SKIPPED = RankReport(Outcome.SKIPPED, "later")
NOT_RUN = RankReport(Outcome.NOT_RUN, "not run: too small")
IDLE = RankReport(None, "idle: a world of two")


def evidence(*said: RankReport | None, end: WaitEnd = WaitEnd.ALL, **more: object) -> CaseEvidence:
    spoken = {rank: one for rank, one in enumerate(said) if one is not None}
    return CaseEvidence(end=end, seconds=1.5, said=spoken, **more)  # type: ignore[arg-type]  # fields of several types


@pytest.mark.parametrize(
    ("found", "outcome", "ranks"),
    [
        (evidence(PASSED, PASSED, PASSED, PASSED), Outcome.PASSED, ()),
        (evidence(PASSED, FAILED, PASSED, PASSED), Outcome.FAILED, (1,)),
        (evidence(FAILED, FAILED, FAILED, FAILED), Outcome.FAILED, (0, 1, 2, 3)),
        (evidence(VICTIM, FAILED, VICTIM, PASSED), Outcome.FAILED, (1,)),
        (evidence(VICTIM, VICTIM, VICTIM, VICTIM), Outcome.FAILED, (0, 1, 2, 3)),
        (evidence(FAILED, ERRORED, PASSED, PASSED), Outcome.ERRORED, (1,)),
        (evidence(SKIPPED, SKIPPED, SKIPPED, SKIPPED), Outcome.SKIPPED, ()),
        (evidence(PASSED, SKIPPED, PASSED, PASSED), Outcome.SKIPPED, (1,)),
        (evidence(NOT_RUN, PASSED, PASSED, PASSED), Outcome.NOT_RUN, (0,)),
        (evidence(PASSED, PASSED, IDLE, IDLE), Outcome.PASSED, ()),
        (evidence(PASSED, FAILED, IDLE, IDLE), Outcome.FAILED, (1,)),
        (evidence(SKIPPED, SKIPPED, IDLE, IDLE), Outcome.SKIPPED, ()),
        (evidence(SKIPPED, PASSED, IDLE, IDLE), Outcome.SKIPPED, (0,)),
        (evidence(IDLE, IDLE, IDLE, IDLE), Outcome.NOT_RUN, ()),
        (evidence(PASSED, None, IDLE, IDLE, end=WaitEnd.DEADLINE), Outcome.HUNG, (1,)),
        (evidence(None, FAILED, None, PASSED, end=WaitEnd.GRACE), Outcome.FAILED, (1,)),
        (evidence(None, PASSED, None, PASSED, end=WaitEnd.DEADLINE), Outcome.HUNG, (0, 2)),
        (evidence(None, FAILED, None, PASSED, end=WaitEnd.DEADLINE), Outcome.FAILED, (1,)),
        (evidence(PASSED, None, PASSED, PASSED), Outcome.HUNG, (1,)),
        (evidence(end=WaitEnd.DEADLINE), Outcome.HUNG, (0, 1, 2, 3)),
        (evidence(PASSED, None, FAILED, None, end=WaitEnd.DIED, exits={3: -9}), Outcome.CRASHED, (3,)),
        (evidence(None, None, None, None, end=WaitEnd.DIED, exits={3: -9, 0: -9}), Outcome.CRASHED, (0, 3)),
        # an abort after another one's death, or after another one's failure, is its consequence
        (evidence(None, None, None, None, end=WaitEnd.DIED, exits={3: -9, 0: -6}), Outcome.CRASHED, (3,)),
        (evidence(None, None, None, None, end=WaitEnd.DIED, exits={0: -6, 3: -9}), Outcome.CRASHED, (0, 3)),
        (evidence(None, None, None, None, end=WaitEnd.DIED, exits={0: -6, 3: -6}), Outcome.CRASHED, (0, 3)),
        (evidence(None, FAILED, None, None, exits={0: -6}, failed_first={1}), Outcome.FAILED, (1,)),
        (evidence(None, VICTIM, None, None, exits={0: -6}, failed_first={1}), Outcome.CRASHED, (0,)),
        (evidence(None, FAILED, None, None, exits={0: -6}), Outcome.CRASHED, (0,)),
        (evidence(None, FAILED, None, None, exits={0: -11}, failed_first={1}), Outcome.CRASHED, (0,)),
    ],
    ids=lambda value: value.end if isinstance(value, CaseEvidence) else str(value),
)
def test_the_cause_is_blamed_and_not_its_victims(found: CaseEvidence, outcome: Outcome, ranks: tuple[int, ...]) -> None:
    result = judge_case("t.py::test", found, WORLD)
    assert (result.outcome, result.ranks) == (outcome, ranks)
    if needs_new_gang(result):
        assert result.nodes == WORLD.nodes(ranks)


def test_a_rank_that_said_nothing_is_never_green() -> None:
    for silent in range(4):
        said = [PASSED if rank != silent else None for rank in range(4)]
        assert needs_new_gang(judge_case("t", evidence(*said), WORLD))


@pytest.mark.parametrize(
    ("status", "name", "code", "words"),
    [
        (-int(signal.SIGSEGV), "SIGSEGV", None, "rank 2 on node-b was killed by SIGSEGV during the case"),
        (-99, "signal 99", None, "was killed by signal 99"),
        (0, "", 0, "exited with code 0 during the case"),
        (1, "", 1, "exited with code 1"),
    ],
)
def test_a_crash_says_how(status: int, name: str, code: int | None, words: str) -> None:
    result = judge_case("t", evidence(PASSED, end=WaitEnd.DIED, exits={2: status}), WORLD)
    assert (result.signal, result.exit_code) == (name, code)
    assert words in result.message


def test_ranks_that_ended_differently_are_described_separately() -> None:
    result = judge_case("t", evidence(end=WaitEnd.DIED, exits={0: -11, 2: 3}), WORLD)
    assert "ranks 0, 2 on node-a, node-b were killed by SIGSEGV or exited with code 3" in result.message


def test_a_failure_names_who_was_stopped_for_it() -> None:
    result = judge_case("t", evidence(None, FAILED, None, PASSED, end=WaitEnd.GRACE), WORLD)
    assert result.message.startswith("rank 1 on node-a:\nAssertionError: 1 != 2")
    assert "(ranks 0, 2 on node-a, node-b had not finished" in result.message


def test_a_hang_keeps_the_stacks_of_those_that_hang() -> None:
    found = evidence(
        PASSED,
        None,
        PASSED,
        PASSED,
        end=WaitEnd.DEADLINE,
        seen={1: RankObservation(stack="File x"), 0: RankObservation(stack="File y")},
    )
    assert judge_case("t", found, WORLD).stacks == {1: "File x"}


def test_a_skip_keeps_its_reason() -> None:
    assert judge_case("t", evidence(PASSED, SKIPPED, PASSED, PASSED), WORLD).message == "later"


@pytest.mark.parametrize(
    "message",
    [
        "[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:27465",
        "[gloo/transport/tcp/pair.cc:547] Read error [10.0.0.3]:41234: Connection reset by peer",
        "[gloo/transport/tcp/unbound_buffer.cc:84] Application timeout caused pair closure",
        "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
        "NCCL error in: x.cpp:3384\nncclRemoteError: A call failed possibly due to a network error",
        "NCCL communicator was aborted on rank 3.",
    ],
)
def test_the_words_of_victims_are_known(message: str) -> None:
    assert is_victim(f"RuntimeError: {message}")


@pytest.mark.parametrize(
    "message", ["AssertionError: tensors differ", "CUDA error: an illegal memory access was encountered", "1 != 2"]
)
def test_other_words_are_a_cause(message: str) -> None:
    assert not is_victim(message)


def test_ranks_that_aborted_because_of_another_one_are_named() -> None:
    crash = judge_case("t", evidence(end=WaitEnd.DIED, exits={3: -9, 0: -6}), WORLD)
    assert crash.message == (
        "rank 3 on node-b was killed by SIGKILL during the case\n(rank 0 on node-a aborted because of it)"
    )
    assert crash.message.splitlines()[0] in (ROOT / "docs/troubleshooting.md").read_text()
    failure = judge_case("t", evidence(None, FAILED, None, PASSED, exits={0: -6}, failed_first={1}), WORLD)
    assert failure.message.startswith("rank 1 on node-a:\nAssertionError: 1 != 2")
    assert "(rank 2 on node-b had not finished when" in failure.message
    assert failure.message.endswith("(rank 0 on node-a aborted because of it)")


def test_many_ranks_are_named_in_short() -> None:
    world = World(node_names=tuple(f"n{index}" for index in range(64)), ranks_per_node=8)
    text = name_ranks(range(512), world)
    assert text.startswith("ranks 0, 1, 2, ")
    assert text.endswith("n15 …")
    assert len(text) < 200


WATCHDOGS = [
    one for path in sorted((ROOT / "tests/data/log_excerpts").glob("*.json")) for one in json.loads(path.read_text())
]


@pytest.mark.parametrize("excerpt", WATCHDOGS, ids=[one["name"] for one in WATCHDOGS])
def test_the_cause_of_an_abort_is_read_from_what_the_watchdog_writes(excerpt: dict[str, Any]) -> None:
    cause = AbortCause()
    for line in excerpt["lines"]:
        cause.read(line.encode())
    found = ("victim" if is_victim(cause.text) else "cause") if cause.text else None
    assert found == excerpt["watchdog"]


ENDS = b"[Rank 1] Process group watchdog thread terminated with exception: "


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ((ENDS + b"CUDA error: a", b"Fatal Python error: Aborted", b"ncclRemoteError: b"), "CUDA error: a"),
        ((ENDS + b"NCCL error: a", b"ncclRemoteError: b", b"Last error:", b"c", b"d"),
         "NCCL error: a ncclRemoteError: b Last error: c"),
        ((ENDS + b"NCCL error: a", ENDS + b"NCCL error: b"), "NCCL error: a"),
        ((ENDS + b"x" * 10_000, b"nccl" + b"y" * 10_000), "x" * 500),
        ((b"ncclRemoteError: b", b"Last error:", b"c"), ""),
    ],
    ids=["other lines", "details", "the first one", "cut", "not the watchdog's"],
)  # fmt: skip
def test_the_cause_of_an_abort_is_the_first_one_with_its_details(lines: tuple[bytes, ...], text: str) -> None:
    cause = AbortCause()
    for line in lines:
        cause.read(line)
    assert cause.text == text


TIMED_OUT = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=78) ran for 600009 milliseconds"
REMOTE = "NCCL error: remote process exited or there was a network error, NCCL version 2.29.7"
WAITS = RankObservation(place=StackPlace("all_reduce", "add (test_it.py:7)"))
OWN_GPU = "CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("found", "outcome", "ranks", "words"),
    [
        # the first to abort waited for a rank that still runs
        (
            evidence(None, None, PASSED, PASSED, end=WaitEnd.DIED, exits={0: -6}, exit_causes={0: TIMED_OUT}),
            Outcome.HUNG, (1,), "rank 1 on node-a had not finished when torch aborted rank 0 on node-a: [Rank 0]",
        ),
        (
            evidence(end=WaitEnd.DIED, exits={0: -6, 3: -6}, exit_causes={0: TIMED_OUT, 3: REMOTE}),
            Outcome.HUNG, (1, 2), "ranks 1, 2 on node-a, node-b had not finished",
        ),
        (
            evidence(
                end=WaitEnd.DIED, exits={0: -6}, exit_causes={0: TIMED_OUT},
                seen={1: WAITS, 2: RankObservation(place=StackPlace("", "sleeps")), 3: WAITS},
            ),
            Outcome.HUNG, (2,), "rank 2 on node-b had not finished when torch aborted rank 0 on node-a: ",
        ),
        (
            evidence(end=WaitEnd.DIED, exits={0: -6}, exit_causes={0: TIMED_OUT}, seen=dict.fromkeys((1, 2, 3), WAITS)),
            Outcome.HUNG, (0, 1, 2, 3), "ranks 1, 2, 3 on node-a, node-b had not finished",
        ),
        # another rank's GPU failed, after the first had aborted
        (
            evidence(end=WaitEnd.DIED, exits={0: -6, 3: -6}, exit_causes={0: REMOTE, 3: OWN_GPU}),
            Outcome.CRASHED, (3,), f"killed by SIGABRT during the case: {OWN_GPU}\n(rank 0 on node-a aborted because",
        ),
        (
            evidence(end=WaitEnd.DIED, exits={0: -6, 3: -6}, exit_causes={0: REMOTE}),
            Outcome.CRASHED, (3,), "(rank 0 on node-a aborted because of it)",
        ),
        (
            evidence(end=WaitEnd.DIED, exits={0: -6, 3: -9}, exit_causes={0: REMOTE}),
            Outcome.CRASHED, (3,), "rank 3 on node-b was killed by SIGKILL during the case\n",
        ),
        # a rank failed: the timeout of the others is its consequence
        (
            evidence(None, FAILED, None, None, exits={0: -6}, exit_causes={0: TIMED_OUT}),
            Outcome.FAILED, (1,), "AssertionError: 1 != 2",
        ),
        # nothing proves who is at fault
        (
            evidence(
                end=WaitEnd.DIED, exits=dict.fromkeys(range(4), -6), exit_causes=dict.fromkeys(range(4), TIMED_OUT)
            ),
            Outcome.CRASHED, (0, 1, 2, 3), "killed by SIGABRT during the case: [Rank 0] Watchdog caught",
        ),
        (
            evidence(None, PASSED, PASSED, PASSED, end=WaitEnd.DIED, exits={0: -6}, exit_causes={0: REMOTE}),
            Outcome.CRASHED, (0,), "SIGABRT",
        ),
        # not the watchdog's, and not an abort
        (
            evidence(end=WaitEnd.DIED, exits={0: -11}, exit_causes={0: TIMED_OUT}),
            Outcome.CRASHED, (0,), "SIGSEGV",
        ),
    ],
    ids=[
        "one is left", "two are left", "one of three does not wait", "all wait",
        "a GPU failed", "an unexplained abort", "a killed rank", "a failed rank",
        "all timed out", "all others passed", "a segmentation fault",
    ],
)  # fmt: skip
def test_a_rank_whose_watchdog_names_another_cause_is_not_blamed(
    found: CaseEvidence, outcome: Outcome, ranks: tuple[int, ...], words: str
) -> None:
    result = judge_case("t.py::test", found, WORLD)
    assert (result.outcome, result.ranks, result.nodes) == (outcome, ranks, WORLD.nodes(ranks))
    assert words in result.message
