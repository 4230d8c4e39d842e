import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator

import pytest

from disttest_operator.config.log_format import CHATTY, set_up


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is the process's, and so pytest's."""
    root, hook = logging.getLogger(), sys.excepthook
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in CHATTY}
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], sys.excepthook = handlers, hook
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def written(log_format: str, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    set_up(level, log_format, stream)
    return stream


def fail() -> None:
    raise ValueError("no such thing")


def test_json_has_one_object_a_line_for_kopfs_loggers_and_ours_alike() -> None:
    stream = written("json")
    logging.getLogger("disttest_operator.main").info("%s/%s: created\nthe Job", "gpu-ci", "nightly")
    logging.getLogger("kopf.objects").warning("a watch ended")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert list(first) == ["time", "level", "logger", "message"]
    assert (first["level"], first["logger"]) == ("info", "disttest_operator.main")
    assert first["message"] == "gpu-ci/nightly: created\nthe Job"
    assert first["time"].endswith("+00:00")
    assert (second["level"], second["logger"], second["message"]) == ("warning", "kopf.objects", "a watch ended")


def test_json_has_the_traceback_of_an_exception() -> None:
    stream = written("json")
    try:
        fail()
    except ValueError:
        logging.getLogger("a").exception("look")
    said = json.loads(stream.getvalue())
    assert said["message"] == "look"
    assert said["exception"].startswith("Traceback")
    assert said["exception"].endswith("ValueError: no such thing")


def test_what_ends_the_process_and_warnings_are_logged_too() -> None:
    stream = written("json")
    warnings.showwarning("old", UserWarning, "file.py", 1)  # pytest keeps those that are raised to itself
    try:
        fail()
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    warning, end = map(json.loads, stream.getvalue().splitlines())
    assert (warning["logger"], end["level"]) == ("py.warnings", "critical")
    assert "no such thing" in end["exception"]


def test_text_is_a_line_for_people() -> None:
    stream = written("text")
    logging.getLogger("a").info("said")
    assert stream.getvalue().endswith(" INFO a: said\n")


@pytest.mark.parametrize(("level", "is_heard"), [("info", False), ("debug", True)])
def test_info_messages_of_libraries_are_logged_at_level_debug_only(level: str, is_heard: bool) -> None:  # noqa: FBT001  # a table
    stream = written("text", level)
    logging.getLogger("kopf.activities").info("login")
    assert bool(stream.getvalue()) is is_heard
