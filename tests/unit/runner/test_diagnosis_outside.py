"""What is asked outside of the ranks: NCCL's RAS service, py-spy, a directory. None of it may fail or delay a run."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome
from disttest_contract.plan import RunPlan
from disttest_contract.report import CaseResult
from disttest_runner.diagnosis import artifacts, leading, pyspy, ras
from disttest_runner.diagnosis.pyspy import PySpy

TEXT = "NCCL version 2.29.7\nJob summary\n  4 ranks\n"
JSON = json.dumps({"nccl_version": "2.29.7", "communicators": []})


class Service:
    """Speaks the protocol as NCCL's does, or badly."""

    def __init__(self, answer: Callable[[socket.socket, str], None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.where = self._listener.getsockname()
        self.heard: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            sock, _ = self._listener.accept()
            with sock, sock.makefile("r") as lines:
                for line in lines:
                    self.heard.append(line.strip())
                    self._answer(sock, line.strip().lower())
                    if "status" in line.lower():
                        return
        except OSError:
            return

    def close(self) -> None:
        self._listener.close()
        self._thread.join(5)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket, str], None]], Service]]:
    services: list[Service] = []

    def start(answer: Callable[[socket.socket, str], None]) -> Service:
        services.append(Service(answer))
        return services[-1]

    yield start
    for service in services:
        service.close()


Serve = Callable[[Callable[[socket.socket, str], None]], Service]


def nccl(status: str, *, knows_json: bool = True) -> Callable[[socket.socket, str], None]:
    def answer(sock: socket.socket, command: str) -> None:
        if command.startswith("client protocol"):
            sock.sendall(b"SERVER PROTOCOL 2\n")
        elif command.startswith("timeout") or (command == "set format json" and knows_json):
            sock.sendall(b"OK\n")
        elif command == "verbose status":
            sock.sendall(status.encode())
        else:
            sock.sendall(f"ERROR: Unknown command {command}\n".encode())

    return answer


def test_the_verbose_status_is_asked_for_and_read_to_its_end(serve: Serve) -> None:
    service = serve(nccl(TEXT))
    assert ras.status(service.where) == TEXT
    assert service.heard == ["CLIENT PROTOCOL 2", f"TIMEOUT {ras.PEER_SECONDS}", "VERBOSE STATUS"]


def test_the_status_can_be_had_as_json(serve: Serve) -> None:
    assert json.loads(ras.status(serve(nccl(JSON)).where, form="json")) == json.loads(JSON)


def test_a_service_that_knows_no_json_is_said_to_refuse_it(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match="refuses 'SET FORMAT json'"):
        ras.status(serve(nccl(TEXT, knows_json=False)).where, form="json")


def test_what_is_no_json_is_not_taken_for_it(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match="not JSON"):
        ras.status(serve(nccl(TEXT)).where, form="json")


def test_a_silent_service_costs_no_more_than_its_time(serve: Serve) -> None:
    started = time.monotonic()
    with pytest.raises(ras.SilentError, match="did not answer"):
        ras.status(serve(lambda *_: None).where, seconds=0.2)
    assert time.monotonic() - started < 5


def test_a_service_that_trickles_costs_no_more_than_its_time(serve: Serve) -> None:
    going = threading.Event()

    def trickle(sock: socket.socket, command: str) -> None:
        nccl("")(sock, command)
        while "status" in command and not going.wait(0.01):
            sock.sendall(b"x")

    service = serve(trickle)
    try:
        with pytest.raises(ras.SilentError, match="timed out"):
            ras.status(service.where, seconds=0.3)
    finally:
        going.set()


def test_something_else_on_that_port_is_not_taken_for_nccl(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match=r"something else: 'SSH-2\.0"):
        ras.status(serve(lambda sock, _: sock.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")).where)


def test_garbage_without_an_end_is_given_up(serve: Serve) -> None:
    with pytest.raises(ras.SilentError, match="something else"):
        ras.status(serve(lambda sock, _: sock.sendall(b"\xff" * 5000)).where)


def test_a_huge_status_is_cut(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "LIMIT_BYTES", 1000)
    text = ras.status(serve(nccl("y" * 500_000)).where)
    assert text.startswith("y" * 1000 + "\n… more than 1000 bytes")


def test_nobody_listening_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = taken.getsockname()
    with pytest.raises(ras.SilentError, match="Connection refused"):
        ras.status(where)


@pytest.mark.parametrize(
    ("environ", "uses_nccl", "where"),
    [
        ({}, True, ("localhost", 28028)),
        ({}, False, None),
        ({"NCCL_RAS_ADDR": "127.0.0.1:9999"}, False, ("127.0.0.1", 9999)),
        ({"NCCL_RAS_ADDR": "[::1]:9999"}, True, ("::1", 9999)),
        ({"NCCL_RAS_ADDR": "nonsense"}, True, None),
        ({"NCCL_RAS_ENABLE": "0"}, True, None),
    ],
)
def test_where_to_ask(environ: dict[str, str], uses_nccl: bool, where: tuple[str, int] | None) -> None:  # noqa: FBT001 - a row of a table
    assert ras.address(environ, uses_nccl=uses_nccl) == where


def program(folder: Path, script: str) -> str:
    file = folder / "py-spy"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def test_c_frames_are_kept_of_the_ranks_where_they_can_be_had(tmp_path: Path) -> None:
    spy = PySpy(program(tmp_path, 'test "$5" = 7 && echo "frames of $5" || exit 1'))
    assert asyncio.run(spy.dump({0: 7, 1: 8})) == {0: "frames of 7\n"}
    assert not spy.problem, "a rank that is gone says nothing about the others"


def test_a_refusal_is_remembered_and_told(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    spy = PySpy(program(tmp_path, f"echo x >> {tried}; echo 'Permission Denied: try again' >&2; exit 1"))
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert "SYS_PTRACE" in spy.problem
    assert tried.read_text() == "x\n"


def test_a_py_spy_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspy, "SECONDS", 0.2)
    spy = PySpy(program(tmp_path, "exec sleep 1000"))
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert not spy.problem, "the next rank may be quicker"


def test_without_py_spy_that_is_said() -> None:
    spy = PySpy("")
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert "not installed" in spy.problem


def plan(directory: str) -> RunPlan:
    return RunPlan(
        namespace="gpu-ci",
        name="nightly-x7k2",
        uid="u",
        series="",
        attempt=2,
        nodes=1,
        ranks_per_node=1,
        backend="gloo",
        spread=True,
        suites=(),
        join_seconds=1,
        case_seconds=1,
        run_seconds=1,
        artifacts=directory,
    )


def test_a_case_has_a_folder_of_its_own() -> None:
    folder = artifacts.folder(plan("/artifacts"), "mine", "test_it.py::test_x[a/b]")
    assert folder.parent == Path("/artifacts/gpu-ci/nightly-x7k2/attempt-2/mine")
    assert len(folder.name) == artifacts.DIGEST_CHARACTERS
    assert folder != artifacts.folder(plan("/artifacts"), "mine", "test_it.py::test_x[a/c]")


def test_a_suite_s_name_cannot_lead_out_of_the_directory() -> None:
    folder = artifacts.folder(plan("/artifacts"), "../../etc", "x")
    assert folder.is_relative_to("/artifacts")
    assert ".." not in folder.parts


def test_files_are_written_whole(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    assert artifacts.write(place, {"rank-0.stacks.txt": "File ü\udcff"}) == ""
    assert (place / "rank-0.stacks.txt").read_text() == "File ü?"


def test_a_directory_that_takes_nothing_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "could not be written to" in artifacts.write(tmp_path / "file" / "x", {"a": "b"})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/dev/full")
    assert "No space left" in artifacts.write(tmp_path, {"a": "b"})


def test_the_environment_is_shown_without_what_might_be_secret() -> None:
    environ = {"NCCL_DEBUG": "WARN", "HF_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "y", "OMP_NUM_THREADS": "1"}
    text = artifacts.environment(environ, {"torch": "2.13.0"}, "test_it.py::test_x", "node-a")
    assert text.splitlines() == [
        "case=test_it.py::test_x",
        "node=node-a",
        "version of torch=2.13.0",
        "NCCL_DEBUG=WARN",
        "OMP_NUM_THREADS=1",
    ]


def test_what_agents_found_later_is_added_to_the_result() -> None:
    result = CaseResult(id="x", outcome=Outcome.HUNG, seconds=1)
    details = [
        {"native": {"0": "frames"}, "ras": "", "artifacts": ""},
        {"native": {}, "ras": "all is well", "artifacts": "/artifacts/x"},
    ]
    diagnosis = leading.add(result, details).diagnosis
    assert diagnosis is not None
    assert (diagnosis.native, diagnosis.ras, diagnosis.artifacts) == ({0: "frames"}, "all is well", "/artifacts/x")
