"""The termination message: always whole, always of one size, whatever is put into it."""

import json

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict
from disttest_contract.transport.termination_message import Summary

COUNTS = Counts.of([Outcome.PASSED] * 3 + [Outcome.CRASHED])


def a_summary(**changes: object) -> Summary:
    fields: dict[str, object] = {"uid": "u", "attempt": 2, "node_index": 1, "step": "running", "counts": COUNTS}
    return Summary(**{**fields, **changes})  # type: ignore[arg-type]  # fields of several types


ENDLESS = '{"schema":1,"attempt":Infinity,"nodeIndex":0,"step":"running"}'


@pytest.mark.parametrize(
    "text",
    ["", "short", "x" * 5000, "é" * 5000, "\N{GRINNING FACE}" * 5000, '"\\\n\x00' * 2000, "\udcff" * 3000],
    ids=["empty", "short", "long", "two bytes", "four bytes", "escapes", "surrogates"],
)
def test_any_text_fits_and_comes_back(text: str) -> None:
    summary = a_summary(
        message=text, current=text, first_failure=text, verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_CRASHED
    )
    raw = summary.to_bytes()
    assert len(raw) == limits.TERMINATION_MESSAGE_BYTES
    read = Summary.read(raw.decode())
    assert read is not None
    assert (read.uid, read.attempt, read.node_index, read.step) == ("u", 2, 1, "running")
    assert (read.verdict, read.reason, read.counts) == (Verdict.TESTS_FAILED, Reason.CASES_CRASHED, COUNTS)
    if 0 < len(text) < 100:
        assert read == summary


def test_a_shorter_message_leaves_nothing_of_a_longer_one() -> None:
    long, short = a_summary(message="x" * 900).to_bytes(), a_summary(message="y").to_bytes()
    page = bytearray(long)
    page[: len(short)] = short
    assert Summary.read(page.decode()) == a_summary(message="y")


def test_unknown_keys_are_ignored() -> None:
    data = json.loads(a_summary().to_bytes())
    assert Summary.read(json.dumps({**data, "mood": "fine"})) == a_summary()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Killed",
        "[]",
        "{}",
        '{"schema": 2, "uid": "u"}',
        '{"schema": 1, "uid": "u"}',
        "[" * 100_000,
        '{"schema":1',
        ENDLESS,
    ],
    ids=["nothing", "words", "list", "no schema", "later schema", "fields missing", "deep", "cut", "endless"],
)
def test_what_is_not_a_summary_is_none(text: str) -> None:
    assert Summary.read(text) is None


def test_a_summary_of_an_agent_that_could_not_read_its_plan_comes_back() -> None:
    summary = a_summary(uid="", verdict=Verdict.ERRORED, reason=Reason.RUNNER_ERROR)
    assert Summary.read(summary.to_bytes().decode()) == summary
