"""Lines of progress: short whatever they carry, and nothing is read from what is not one of them."""

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.transport.progress import FAILURES, MARK, Failure, Progress, seal

NONCE = "0123456789abcdef"
FAILURE = Failure(
    suite="mine", case="test_x.py::test_y", outcome=Outcome.CRASHED, ranks="0-3,8", nodes=("node-a",), message="boom"
)
PROGRESS = Progress(
    step="running",
    nodes_joined=2,
    suite="mine",
    current_case="test_x.py::test_z",
    cases_done=3,
    cases_total=40,
    suites_done=1,
    counts=Counts.of([Outcome.PASSED] * 2 + [Outcome.CRASHED]),
    failures=(FAILURE,),
)


def test_what_is_written_comes_back() -> None:
    assert Progress.read(PROGRESS.to_line(NONCE), NONCE) == PROGRESS


def test_a_line_does_not_tell_the_nonce_that_vouches_for_the_report() -> None:
    assert NONCE not in PROGRESS.to_line(NONCE)


def test_a_line_of_another_attempt_is_none_of_ours() -> None:
    assert Progress.read(PROGRESS.to_line("other"), NONCE) is None


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 5000, '"\\\n\x00' * 2000, "\udcff" * 3000])
def test_a_line_is_one_line_and_short_whatever_names_and_messages_are(text: str) -> None:
    failure = Failure(suite=text, case=text, outcome=Outcome.FAILED, ranks=text, nodes=(text,) * 20, message=text)
    line = Progress(step="running", suite=text, current_case=text, failures=(failure,) * 20).to_line(NONCE)
    assert "\n" not in line
    assert len(line.encode()) <= limits.FRAME_LINE_BYTES
    read = Progress.read(line, NONCE)
    assert read is not None
    assert len(read.failures) == FAILURES


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"step":"running","casesDone":"many"}',
        '{"step":"running","casesDone":Infinity}',
        '{"step":"running","failures":[{"case":"without an outcome"}]}',
        '{"step":"running","failures":7}',
        '{"step":"running","counts":[]}',
        '{"step":' + "[" * 2000,
    ],
)
def test_what_cannot_be_understood_says_nothing(rest: str) -> None:
    assert Progress.read(f"{MARK} {seal(NONCE)} {rest}", NONCE) is None


def test_unknown_keys_are_ignored_and_missing_numbers_are_zero() -> None:
    assert Progress.read(f'{MARK} {seal(NONCE)} {{"step":"joining","mood":"fine"}}', NONCE) == Progress(step="joining")


@pytest.mark.parametrize("outcome", ['"newer"', "7", "[]"])
def test_an_unknown_outcome_is_read_as_errored(outcome: str) -> None:
    read = Progress.read(f'{MARK} {seal(NONCE)} {{"step":"running","failures":[{{"outcome":{outcome}}}]}}', NONCE)
    assert read == Progress(step="running", failures=(Failure(outcome=Outcome.ERRORED),))
