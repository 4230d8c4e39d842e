"""A session of pytest in the zygote that finds one empty case and runs none.

What pytest imports, compiles and remembers at its first use, every rank then has from its birth: it starts a tenth
sooner, and no code of a user has run.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
