"""What ranks send is checked and cut by their agent: test code shares the process that writes it."""

import pytest

from disttest_contract import limits
from disttest_runner.agent import local_ranks

DONE = {"op": "done", "case": 1, "outcome": "failed", "seconds": 0.1, "message": "why"}
COLLECTED = {
    "op": "collected",
    "digest": "d",
    "ids": ["a"],
    "error": "",
    "note": "",
    "settings": {"NCCL_DEBUG": "INFO"},
}


def test_megabytes_of_a_message_are_cut_to_their_end() -> None:
    assert local_ranks.checked_result(DONE) == DONE
    message = local_ranks.checked_result({**DONE, "message": "x" * 10_000_000 + "E assert 1 == 2"})["message"]
    assert len(message) == limits.MESSAGE_BYTES
    assert message.endswith("E assert 1 == 2")
    huge = local_ranks.checked_collection(
        {**COLLECTED, "error": "e" * 10**6, "note": "n" * 10**6, "digest": "d" * 10**6}
    )
    assert {key: len(huge[key]) for key in ("error", "note", "digest")} == {"error": 4096, "note": 4096, "digest": 64}
    assert local_ranks.checked_collection(COLLECTED) == COLLECTED


def test_settings_are_cut_too() -> None:
    many = {f"{number:03}" + "n" * 1000: "v" * 1000 for number in range(100)}
    settings = local_ranks.checked_collection({**COLLECTED, "settings": many})["settings"]
    assert len(settings) == local_ranks.SETTINGS
    assert {len(text) for item in settings.items() for text in item} == {local_ranks.SETTING_CHARACTERS}


@pytest.mark.parametrize(
    "change", [{"outcome": "bored"}, {"outcome": None}, {"measured": [[1]]}], ids=["outcome", "none", "measured"]
)
def test_what_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        local_ranks.checked_result({**DONE, **change})
