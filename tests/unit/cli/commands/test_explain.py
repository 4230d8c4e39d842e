"""`disttest explain`: the sentences of the vocabulary, and the next step for reasons."""

import pytest

from disttest_cli.commands import explain
from disttest_cli.formats import advice
from disttest_cli.main import main
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_operator.core.api.conditions import ConditionType, GangReadyReason
from disttest_operator.core.api.model import Phase


def test_a_reason_is_explained_with_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GangLost"]) == 0
    assert capsys.readouterr().out == (
        f"GangLost (reason): {Reason.GANG_LOST.description}\n  To do: {advice.ENDINGS[Reason.GANG_LOST]}\n"
    )


def test_a_word_with_several_meanings_is_explained_once_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "hung"]) == 0
    assert capsys.readouterr().out == (
        f"Hung (verdict): {Verdict.HUNG.description}\nhung (outcome): {Outcome.HUNG.description}\n"
    )


@pytest.mark.parametrize("words", [Verdict, Outcome, Reason, Phase, ConditionType, GangReadyReason])
def test_every_word_is_in_the_list(
    words: type[Verdict | Outcome | Reason | Phase | ConditionType | GangReadyReason],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert listed >= {word.value for word in words}


def test_the_list_has_a_heading_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain"])
    headings = [line for line in capsys.readouterr().out.splitlines() if line.endswith(":")]
    assert headings == ["verdicts:", "outcomes:", "reasons:", "phases:", "conditions:", "reasons of GangReady:"]


def test_nothing_is_advised_after_a_pass() -> None:
    assert not next(one for one in explain.entries() if one.word == Reason.ALL_CASES_PASSED).advice


@pytest.mark.parametrize(
    ("word", "hint"),
    [("GangLots", "Did you mean GangLost?"), ("xyzzy", "`disttest explain` lists all words.")],
)
def test_an_unknown_word_is_a_usage_error_with_the_nearest_words(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word]) == 2
    assert capsys.readouterr().err == (
        f"disttest: {word!r} is not a verdict, outcome, reason, phase or condition. {hint}\n"
    )
