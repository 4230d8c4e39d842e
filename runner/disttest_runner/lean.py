"""What pytest does in every case although no case of the suite has asked for it: left out, since it adds up."""

import logging
from collections.abc import Iterable
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
