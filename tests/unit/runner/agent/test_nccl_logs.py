"""The files that NCCL writes for ranks: read as they grow, quoted within limits, and emptied when they are large."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from disttest_runner.agent import nccl_logs
from disttest_runner.agent.nccl_logs import NcclLogs

WARNING = "host:1:2 [0] init.cc:1 NCCL WARN something"


@pytest.fixture
def shown() -> list[tuple[int, str]]:
    return []


@pytest.fixture
def logs(shown: list[tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NcclLogs:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return NcclLogs(lambda rank, line: shown.append((rank, line.decode())), lambda _: None, nodes=2, is_used=True)


def in_loop(act: Callable[[], None]) -> None:
    async def run() -> None:
        act()

    asyncio.run(run())


def write(logs: NcclLogs, rank: int, text: str, process: int = 7) -> Path:
    path = Path(logs.pattern(rank).replace("%p", str(process)))
    with path.open("a") as file:
        file.write(text)
    return path


def test_lines_that_are_complete_are_read_once(logs: NcclLogs, shown: list[tuple[int, str]]) -> None:
    def act() -> None:
        logs.start(1)
        write(logs, 3, f"a\n{WARNING} 1\n{WARNING}")
        logs.read()
        assert shown == [(3, f"{WARNING} 1")]
        write(logs, 3, " 2\n")
        logs.read()
        logs.read()
        assert shown == [(3, f"{WARNING} 1"), (3, f"{WARNING} 2")]

    in_loop(act)


def test_all_lines_of_a_warning_are_shown(logs: NcclLogs, shown: list[tuple[int, str]]) -> None:
    def act() -> None:
        logs.start(1)
        write(logs, 0, f"host:1:2 [0] NCCL INFO a\n\n{WARNING}\nThis is usually caused by something.\n")
        write(logs, 0, "host:1:2 [0] NCCL INFO b\nNCCL version 2.29.7\n")
        logs.read()
        assert [line for _, line in shown] == [WARNING, "This is usually caused by something."]
        shown.clear()
        logs.quote(0)
        assert [line for _, line in shown] == [
            nccl_logs.HEADING,
            "host:1:2 [0] NCCL INFO a",
            "host:1:2 [0] NCCL INFO b",
            "NCCL version 2.29.7",
        ]

    in_loop(act)


def test_a_quote_has_the_last_lines_that_no_quote_had(logs: NcclLogs, shown: list[tuple[int, str]]) -> None:
    def act() -> None:
        logs.start(1)
        write(logs, 0, "".join(f"line {number}\n" for number in range(100)))
        quote = logs.quote(0).splitlines()
        assert quote == [nccl_logs.HEADING, *(f"line {number}" for number in range(88, 100))]
        assert [line for _, line in shown] == quote
        assert logs.quote(0) == ""
        assert logs.quote(1) == ""
        write(logs, 0, "another\n")
        assert logs.quote(0).splitlines() == [nccl_logs.HEADING, "another"]

    in_loop(act)


def test_quotes_and_warnings_do_not_fill_the_log_of_the_container(logs: NcclLogs, shown: list[tuple[int, str]]) -> None:
    def act() -> None:
        logs.start(1)
        for _ in range(100):
            write(logs, 0, "x" * 4000 + "\n")
            assert len(logs.quote(0)) <= 2048
        assert sum(len(line) for _, line in shown) <= nccl_logs.QUOTES_BYTES
        shown.clear()
        write(logs, 0, f"{WARNING}\n" * 1000)
        logs.read()
        assert [line for _, line in shown] == [WARNING] * nccl_logs.MOST_WARNINGS + [nccl_logs.MORE]

    in_loop(act)


def test_the_middle_of_what_is_too_long_to_read_is_skipped(logs: NcclLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_logs, "READ_BYTES", 100)
    monkeypatch.setattr(nccl_logs, "END_BYTES", 30)

    def act() -> None:
        logs.start(1)
        path = write(logs, 0, "first\n" + "middle\n" * 100 + "last\nunfinished")
        text, offset = nccl_logs.read_lines(path, 0)
        assert text.startswith("first\nmiddle\n")
        assert text.endswith("\nlast")
        assert len(text) < 140
        assert nccl_logs.read_lines(path, offset) == ("", offset)
        write(logs, 0, " at last\n")
        assert nccl_logs.read_lines(path, offset)[0] == "unfinished at last"

    in_loop(act)


def test_a_large_file_is_emptied_while_nccl_writes_on(logs: NcclLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_logs, "DISK_BYTES", 8 << 10)

    def act() -> None:
        logs.start(1)
        path = Path(logs.pattern(0).replace("%p", "7"))
        with path.open("w", buffering=1) as nccl:
            nccl.write("old\n" * 100_000)
            nccl.flush()
            logs.read()
            assert path.stat().st_blocks == 0
            nccl.write("new\n")
            nccl.flush()
            assert logs.quote(0).splitlines()[-1] == "new"
        assert logs.end(is_kept=True) == {"generation-1.rank-0.process-7.log": "new\n"}

    in_loop(act)


def test_a_folder_that_cannot_be_made_means_no_files(logs: NcclLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc")

    def act() -> None:
        logs.start(1)
        assert logs.pattern(0) == ""
        assert logs.quote(0) == ""
        assert logs.end(is_kept=True) == {}
        logs.remove()

    in_loop(act)


def test_files_of_others_are_ignored_and_all_are_removed(logs: NcclLogs, tmp_path: Path) -> None:
    def act() -> None:
        logs.start(1)
        folder = write(logs, 0, "mine\n").parent
        (folder / "notes").write_text(WARNING)
        (folder / "5.x").mkdir()
        logs.read()
        assert logs.end(is_kept=False) == {}
        assert not folder.exists()
        logs.start(2)
        logs.remove()
        assert list(tmp_path.iterdir()) == []

    in_loop(act)


def test_pipes_and_links_that_a_test_creates_are_not_opened(logs: NcclLogs, tmp_path: Path) -> None:
    def act() -> None:
        logs.start(1)
        folder = write(logs, 0, "mine\n").parent
        secret = tmp_path / "secret"
        secret.write_text("secret\n")
        (folder / "1.7.log").symlink_to(secret)
        os.mkfifo(folder / "2.7.log")
        assert list(logs.end(is_kept=True).values()) == ["mine\n"]

    in_loop(act)
