"""What a rank has sent, checked and cut: test code shares the process that wrote it. Pure."""

from typing import Any

from disttest_contract import limits, numeric
from disttest_contract.outcomes import Outcome
from disttest_runner import measurements
from disttest_runner.blame import IDLE
from disttest_runner.wire import Message

DIGEST_CHARACTERS = 64
WORDS = frozenset((*Outcome, IDLE))


def collected(message: Message) -> Message:
    """Raises KeyError or TypeError for what is not whole."""
    ids = message["ids"]
    if not isinstance(ids, list) or not all(isinstance(case_id, str) for case_id in ids):
        raise TypeError("the ids of cases are texts")
    digest = str(message["digest"])[:DIGEST_CHARACTERS]
    return {**message, "digest": digest, "error": _end(message["error"]), "note": _end(message["note"])}


def done(message: Message) -> Message:
    """Raises KeyError, TypeError or ValueError for what is no outcome or no measurement."""
    if message["outcome"] not in WORDS:
        raise ValueError(f"{message['outcome']!r:.40} is no outcome")
    if not 0 <= numeric.real(message["seconds"]) <= limits.NUMBER:  # a report with it would be read by nobody
        raise ValueError(f"a case lasted {message['seconds']} s")
    if "measured" in message:
        measurements.read(message["measured"])
    if "log" in message:
        message["log"] = str(message["log"])[-limits.RANK_LOG_BYTES :]
    message["message"] = _end(message["message"])
    return message


def words(message: Message) -> list[str]:
    """What goes up of a rank's result: outcome, message and its log, if it has one."""
    return [message["outcome"], message["message"], *([message["log"]] if "log" in message else [])]


def _end(text: Any) -> str:
    """A rank cuts what it says, but need not; the end says what went wrong."""
    return str(text)[-limits.MESSAGE_BYTES :]
