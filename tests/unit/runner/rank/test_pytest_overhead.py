"""The logging plugin is left out only if no case needs it."""

from pathlib import Path

import pytest

from disttest_runner.rank import pytest_overhead

PLAIN = "def test_it(): pass\n"
ASKS = "import logging\ndef test_it(caplog):\n    logging.getLogger().warning('seen')\n    assert caplog.text\n"
ASKS_LATE = (
    "import logging\ndef test_it(request):\n    caplog = request.getfixturevalue('caplog')\n"
    "    logging.getLogger().warning('seen')\n    assert caplog.text\n"
)
CONFTEST = "import pytest\n@pytest.fixture\ndef records(request): return request.getfixturevalue('caplog')\n"
BY_CONFTEST = "def test_it(records):\n    import logging\n    logging.warning('x')\n    assert records.text\n"


class Leaving:
    """Does in a session what a rank does before its first case."""

    def __init__(self) -> None:
        self.left_out: bool | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        self.left_out = pytest_overhead.leave_out_logging(session)


@pytest.mark.parametrize(
    ("source", "conftest", "options", "left_out"),
    [
        pytest.param(PLAIN, "", [], True, id="no user"),
        pytest.param(ASKS, "", [], False, id="a case asks for caplog"),
        pytest.param(ASKS_LATE, "", [], False, id="a case asks in its body"),
        pytest.param(BY_CONFTEST, CONFTEST, [], False, id="a fixture of the folder asks"),
        pytest.param(PLAIN, "", ["--log-level=INFO"], False, id="a level is set"),
        pytest.param(PLAIN, "", ["-o", "log_file=/dev/null"], False, id="a file is set"),
        pytest.param(PLAIN, "", ["-p", "no:logging"], False, id="it is off already"),
    ],
)
def test_log_records_are_left_out_only_where_nobody_asks_for_them(
    tmp_path: Path, source: str, conftest: str, options: list[str], *, left_out: bool
) -> None:
    (tmp_path / "test_inner.py").write_text(source)
    if conftest:
        (tmp_path / "conftest.py").write_text(conftest)
    leaving = Leaving()
    arguments = [
        "-p",
        "no:terminal",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    code = pytest.main([*arguments, "-c", "/dev/null", *options], plugins=[leaving])
    assert (code, leaving.left_out) == (pytest.ExitCode.OK, left_out)
