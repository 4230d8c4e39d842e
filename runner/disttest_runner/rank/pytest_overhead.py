"""Reduce the cost of pytest: drop its logging plugin if no case needs it, and import its modules before ranks fork."""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

LOGGING = "logging-plugin"  # the name that pytest registers it by
SETTINGS = ("log_file", "log_level", "log_cli")
MODULE = "test_rehearsed_by_disttest"
OF_USERS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")  # environment with options and plugins of users


def leave_out_logging(session: pytest.Session) -> bool:
    """Unregister pytest's logging plugin unless `caplog` or a setting needs it; return whether it was.

    Pytest adds two handlers to each logger that does not propagate, three times a case. Torch has forty of them, which
    takes longer than everything else that pytest does for a case. Without handlers Python writes records to standard
    error, as in any program that has not configured logging.
    """
    config, manager = session.config, session.config.pluginmanager
    plugin = manager.get_plugin(LOGGING)
    if plugin is None or any(config.getoption(name, default=None) or config.getini(name) for name in SETTINGS):
        return False
    conftests = [module for module in manager.get_plugins() if getattr(module, "__name__", "").endswith("conftest")]
    files = {item.path for item in session.items} | {Path(module.__file__) for module in conftests}
    if any("caplog" in getattr(item, "fixturenames", ()) for item in session.items) or _mentions(files, b"caplog"):
        return False
    manager.unregister(plugin)
    for handler in (plugin.log_cli_handler, plugin.log_file_handler):  # of the session, without output
        logging.getLogger().removeHandler(handler)
        handler.close()
    return True


def _mentions(files: Iterable[Path], word: bytes) -> bool:
    """Search the sources: a case can request a fixture by name at run time, which no list of fixtures shows."""
    return any(word in file.read_bytes() for file in files if file.is_file())


def rehearse(options: tuple[str, ...]) -> bool:
    """Have pytest collect an empty case once, so that it imports its modules; return whether that worked.

    Without space for a file it fails, and ranks start a little later.
    """
    try:
        with _without_users(), tempfile.TemporaryDirectory(prefix="disttest-") as folder:
            (Path(folder) / f"{MODULE}.py").write_text("def test_nothing():\n    pass\n")
            code = pytest.main([*options, "--collect-only", f"--rootdir={folder}", "-c", os.devnull, folder])
    except OSError:
        return False
    return code == pytest.ExitCode.OK


@contextlib.contextmanager
def _without_users() -> Iterator[None]:
    """Hide the configuration of users, and remove the traces of the run afterwards."""
    path, kept = list(sys.path), {name: os.environ.pop(name) for name in OF_USERS if name in os.environ}
    try:
        yield
    finally:
        sys.path[:] = path
        sys.modules.pop(MODULE, None)
        os.environ.update(kept)
