"""What pytest does in every case although no case of the suite has asked for it: left out, since it adds up."""

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


def leave_out_logging(session: pytest.Session) -> bool:
    """Unless `caplog` or a setting wants log records. Returns whether they are left out.

    Pytest hangs two handlers on each logger that does not propagate, three times a case. Torch has forty of them:
    that takes longer than everything else that pytest does for a case. Without its handlers at the root logger Python
    writes records to standard error, as in any program that has not configured logging.
    """
    manager = session.config.pluginmanager
    plugin = manager.get_plugin(LOGGING)
    if plugin is None or any(_is_set(session.config, name) for name in SETTINGS):
        return False
    conftests = [module for module in manager.get_plugins() if getattr(module, "__name__", "").endswith("conftest")]
    files = {item.path for item in session.items} | {Path(module.__file__) for module in conftests}
    if any("caplog" in getattr(item, "fixturenames", ()) for item in session.items) or _mentions(files, b"caplog"):
        return False
    manager.unregister(plugin)
    for handler in (plugin.log_cli_handler, plugin.log_file_handler):  # of the session, which write nowhere
        logging.getLogger().removeHandler(handler)
        handler.close()
    return True


def _is_set(config: pytest.Config, name: str) -> bool:
    return bool(config.getoption(name, default=None) or config.getini(name))


def _mentions(files: Iterable[Path], word: bytes) -> bool:
    """A fixture can be asked for by its name in mid-case, which no list of fixtures shows."""
    return any(word in file.read_bytes() for file in files if file.is_file())


MODULE = "test_rehearsed_by_disttest"
OF_USERS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")  # environment that brings in what is theirs


class RunNothing:
    """Takes the place of the run loop."""

    def __init__(self) -> None:
        self.found = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.found = len(session.items)
        return True


def rehearse(options: tuple[str, ...]) -> bool:
    """Returns whether all went well; if not (no place for a file), ranks only start a little later."""
    loop = RunNothing()
    try:
        with _without_users(), tempfile.TemporaryDirectory(prefix="disttest-") as folder:
            (Path(folder) / f"{MODULE}.py").write_text("def test_nothing():\n    pass\n")
            code = pytest.main([*options, f"--rootdir={folder}", "-c", os.devnull, folder], plugins=[loop])
    except OSError:
        return False
    return code == pytest.ExitCode.OK and loop.found == 1


@contextlib.contextmanager
def _without_users() -> Iterator[None]:
    """Nothing of a user's comes in, and nothing of the rehearsal stays."""
    path, kept = list(sys.path), {name: os.environ.pop(name) for name in OF_USERS if name in os.environ}
    try:
        yield
    finally:
        sys.path[:] = path
        sys.modules.pop(MODULE, None)
        os.environ.update(kept)
