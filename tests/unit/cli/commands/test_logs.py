"""`disttest logs`: whose lines, how they are shown, and what is left when the pods are gone."""

import io
import os
import pty
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from disttest_cli.errors import UsageError
from disttest_cli.kube import pod_logs
from disttest_cli.kube.client import KubeClient
from disttest_cli.kube.pod_logs import LogOutput, line_filter
from disttest_cli.main import main
from disttest_cli.views import log_choice
from disttest_cli.views.log_choice import LogPart
from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import RankEnding, RankGroup
from disttest_contract.results.report import CaseResult
from tests.support.builders import bodies
from tests.support.builders.runs import a_report_of
from tests.support.fakes.canned import Broken, FakeTime, Server
from tests.support.fakes.terminal import read_to_end
from tests.unit.cli.commands.test_describe import answers

LEADER = b"""joined: 2 nodes
DISTTEST-PROGRESS 00ff {"step":"running"}
[rank 0] hello
[rank 1] \x1b[31mred\xff\tend
[rank 10] ten
DISTTEST-REPORT 00ff begin 1 00
DISTTEST-REPORT 00ff end
verdict: Passed"""
OTHER = b"""[rank 8] eight
[rank 11] eleven
[rank 9] DISTTEST-REPORT 00ff end
"""
PODS = [bodies.a_pod(0), bodies.a_pod(1)]
RUN = bodies.failed("nightly")
RUN["status"] |= {"attempt": 1, "attempts": []}
GOING_ON = bodies.going_on("nightly")


def run(server: Server, folder: Path, *arguments: str) -> int:
    return main(["logs", "nightly", "--kubeconfig", server.kubeconfig(folder), *arguments])


def at(server: Server, *answers: Any, body: Any = RUN, pods: Any = PODS) -> None:
    server.answers = [(200, body), (200, {"items": pods}), *answers]


@pytest.mark.parametrize(
    ("arguments", "answer", "expected"),
    [
        (
            (),
            [LEADER],
            "joined: 2 nodes\n[rank 0] hello\n[rank 1] \\x1b[31mred�  end\n[rank 10] ten\nverdict: Passed\n".encode(),
        ),
        (("--raw",), [LEADER], LEADER + b"\n"),
        (("--rank", "1"), [LEADER], "[rank 1] \\x1b[31mred�  end\n".encode()),
        (("--node", "1"), [OTHER], OTHER),
        (("--tail", "2"), [LEADER], b"[rank 10] ten\nverdict: Passed\n"),
        (("--tail", "0"), [LEADER], b""),
        (
            ("--rank", "11", "--rank", "0", "--rank", "8"),
            [OTHER, LEADER],
            b"[node 1] [rank 11] eleven\n[node 0] [rank 0] hello\n[node 1] [rank 8] eight\n",
        ),
        (
            ("--all", "--tail", "1"),
            [LEADER, OTHER],
            b"[node 0] verdict: Passed\n[node 1] [rank 9] DISTTEST-REPORT 00ff end\n",
        ),
    ],
    ids=lambda value: " ".join(value) or "leader" if isinstance(value, tuple) else "",
)
def test_the_selected_lines_are_sanitized_unless_raw(
    arguments: tuple[str, ...],
    answer: list[bytes],
    expected: bytes,
    server: Server,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    at(server, *((200, text) for text in answer))
    assert run(server, tmp_path, *arguments) == 0
    assert capfdbinary.readouterr().out == expected
    assert not server.answers, "each log is read once"


def test_a_rank_that_is_blamed_has_a_header_with_its_pod_and_its_case(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    at(server, (200, OTHER), body=RUN)
    server.answers[2:2] = answers()[3:]
    assert run(server, tmp_path, "--failed") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines == [
        "==> rank 8 of node 1 (nightly-a1-1-abcde on gpu-2): failed in correctness.py::test_all_reduce <==",
        "[rank 8] eight",
        "==> rank 9 of node 1 (nightly-a1-1-abcde on gpu-2): failed in correctness.py::test_all_reduce <==",
        "[rank 9] DISTTEST-REPORT 00ff end",
        "==> rank 10 of node 1 (nightly-a1-1-abcde on gpu-2): failed in correctness.py::test_all_reduce <==",
        "==> rank 11 of node 1 (nightly-a1-1-abcde on gpu-2): failed in correctness.py::test_all_reduce <==",
        "[rank 11] eleven",
    ]


def test_failed_shows_what_a_rank_wrote_in_its_failed_cases_one_after_the_other() -> None:
    lines = [
        b"[rank 8] importing",
        b"[rank 8] ==> mine: test_a <==",
        b"[rank 8] of a",
        b"[rank 8] ==> mine: test_b <==",
        b"[rank 8] of b",
        b"[rank 8] ==> mine: test_c <==",
        b"[rank 8] of c",
        b"[rank 8] ==> mine: test_a <==",
        b"[rank 8] of a, tried again",
    ]
    headings = ("==> mine: test_c <==", "==> mine: test_a <==")
    assert pod_logs.of_cases(lines, 8, headings) == [lines[5], lines[6], lines[1], lines[2], lines[8]]
    assert pod_logs.of_cases(lines, 8, ["==> mine: test_d <=="]) == lines, "a case in which it wrote nothing"


def test_failed_of_a_run_that_passed_has_nothing_to_show_and_is_no_error(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    passed = bodies.a_run("nightly", verdict="Passed", attempt=1)
    at(server, (404, {"message": "no", "details": {"name": "nightly"}}), (200, {"items": []}), body=passed)
    assert run(server, tmp_path, "--failed") == 0
    assert capfd.readouterr() == ("", "disttest: nightly passed: no rank or node failed\n")


def test_failed_of_a_lost_attempt_of_a_run_that_passed_later_is_not_called_passed(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    passed = bodies.a_run("nightly", verdict="Passed", attempt=2)
    at(server, (404, {"message": "no", "details": {"name": "nightly"}}), (200, {"items": []}), body=passed)
    assert run(server, tmp_path, "--failed", "--attempt", "1") == 2
    assert "passed" not in capfd.readouterr().err


class TestBlaming:
    def test_those_in_quarantine_and_flaky_ones_count_only_where_there_are_no_others(self) -> None:
        body = bodies.passed()
        assert [part.rank for part in log_choice.blamed(body, 1, (), None)] == [3]

    def test_an_active_run_names_the_failures_so_far(self) -> None:
        assert [(part.node, part.rank) for part in log_choice.blamed(GOING_ON, 1, (), None)] == [
            (1, 8),
            (1, 9),
            (1, 10),
            (1, 11),
        ]

    def test_an_earlier_attempt_blames_the_pod_that_ended_first(self) -> None:
        pod = bodies.a_pod(1, run="bad")
        parts = log_choice.blamed(bodies.failed(), 1, [pod], None)
        assert parts == [LogPart(node=1, why="ended first, NodeLost")]

    def test_without_failures_in_the_status_the_report_says_whom(self) -> None:
        report = a_report_of(CaseResult(id="t", outcome=Outcome.CRASHED, seconds=1, ranks=(9,)))
        body = bodies.a_run(verdict="TestsFailed", attempt=1)
        headings = ("==> collectives: t <==",)
        assert log_choice.blamed(body, 1, (), report) == [
            LogPart(node=1, rank=9, why="crashed in t", headings=headings)
        ]

    @pytest.mark.parametrize("odd", ["x-y", "9-1", [None, "8"], {"a": 1}, -5])
    def test_invalid_ranks_name_no_log(self, odd: object) -> None:
        body = bodies.a_run(verdict="TestsFailed", attempt=1, failures=[{"case": "t", "ranks": odd}])
        assert log_choice.blamed(body, 1, (), None) == []


class TestOutput:
    def test_nothing_in_a_line_steers_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        main_end, end = pty.openpty()
        with os.fdopen(end, "w") as stream:
            monkeypatch.setattr("sys.stdout", stream)
            LogOutput().line(b"\x1b[2J\x9b1m\rover\x07 \xc3\xa4", "[node 1] ")
        shown = read_to_end(main_end)
        os.close(main_end)
        assert shown == "[node 1] \\x1b[2J�1m\\rover\\x07 ä\r\n".encode(), "one line, with its prefix"

    def test_an_empty_line_stays_one(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        LogOutput().line(b"")
        assert capfdbinary.readouterr().out == b"\n"


class TestPodsThatAreGone:
    def test_the_report_has_messages_and_stacks_of_the_ranks_that_are_asked_for(self) -> None:
        case = CaseResult(
            id="t.py::test_hang",
            outcome=Outcome.HUNG,
            seconds=60,
            ranks=(1,),
            message="rank 1 never came",
            stacks={0: "in all_reduce", 1: "in sleep"},
            by_rank=(RankGroup(ranks=(0,), ending=RankEnding.UNFINISHED, message="waited"),),
        )
        head = "==> hung in collectives: t.py::test_hang <=="
        mine = ["[rank 1] rank 1 never came", "[rank 1] in sleep"]
        others = ["[rank 0] waited", "[rank 0] in all_reduce"]
        assert list(pod_logs.of_report(a_report_of(case), ())) == [head, *mine, *others]
        assert list(pod_logs.of_report(a_report_of(case), (0,))) == [head, *others]
        assert list(pod_logs.of_report(a_report_of(case), (5,))) == []

    def test_it_is_said_and_the_report_is_offered(
        self, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        case = CaseResult(id="t", outcome=Outcome.FAILED, seconds=1, ranks=(8,), message="no\x1b")
        at(server, *answers(a_report_of(case).dumps())[3:], pods=[])
        assert run(server, tmp_path, "--rank", "8") == 0
        out, error = capfd.readouterr()
        assert out == "==> failed in collectives: t <==\n[rank 8] no\\x1b\n"
        assert error == (
            "disttest: the pods of attempt 1 of nightly and their logs no longer exist; this is from its report\n"
        )

    def test_without_a_report_the_status_has_the_first_failures(
        self, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        at(server, (404, {"message": "no", "details": {"name": "nightly"}}), (200, {"items": []}), pods=[])
        assert run(server, tmp_path) == 0
        assert "==> crashed in c10d-spawn: t.py::test_reduce, rank 11 <==" in capfd.readouterr().out

    def test_a_busy_api_server_is_not_a_missing_report(self, server: Server, tmp_path: Path) -> None:
        at(server, (503, {"message": "busy"}), pods=[])
        assert run(server, tmp_path) == 42

    def test_failures_of_a_later_attempt_are_not_shown_for_an_earlier_one(
        self, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        lost = {"number": 1, "verdict": "InfraFailed", "reason": "NodeLost", "message": "node b is gone"}
        later = {**RUN, "status": {**RUN["status"], "attempt": 2, "attempts": [lost]}}
        at(server, (200, later), body=later, pods=[])
        assert run(server, tmp_path, "--attempt", "1") == 2
        out, error = capfd.readouterr()
        assert out == ""
        assert error == (
            "disttest: the pods of attempt 1 of nightly and their logs no longer exist: attempt 1 of "
            "DistTest 'nightly' has no report: InfraFailed (NodeLost): node b is gone\n"
        )

    def test_a_run_that_has_none_yet_says_what_it_waits_for(
        self, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        waiting = bodies.waiting("nightly")
        at(server, (200, waiting), body=waiting, pods=[])
        assert run(server, tmp_path) == 2
        assert capfd.readouterr().err == (
            "disttest: nightly has no pods yet (2 nodes with 8 nvidia.com/gpu each are needed, and 1 has them). "
            "To wait for them, use --follow.\n"
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rank", "1", "--failed"), "Use one of them"),
        (("-f", "--failed"), "--follow reads one pod"),
        (("-f", "--node", "0", "--node", "1"), "--follow reads one pod"),
        (("--rank", "16"), "rank 16 does not exist: the run has 16 ranks, 0 to 15"),
        (("--node", "2"), "node index 2 does not exist: the run has 2 nodes, 0 to 1"),
        (("--attempt", "7"), "nightly has no attempt 7. The newest is 1."),
        (("--rank", "-1"), "Invalid value for '--rank'"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_one_line(
    arguments: tuple[str, ...], words: str, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    at(server)
    assert run(server, tmp_path, *arguments) == 2
    error = capfd.readouterr().err
    assert words in error
    assert error.count("\n") == 1


class TestFollowing:
    @pytest.fixture
    def follow(self, api: KubeClient, time: FakeTime) -> Callable[..., None]:
        def call(*, tail: int | None = None) -> None:
            pod_logs.follow(api, PODS[0], line_filter(None, raw=False), tail, time.clock, LogOutput())

        return call

    def test_a_connection_that_breaks_is_taken_up_where_it_was(
        self, follow: Callable[..., None], server: Server, capfd: pytest.CaptureFixture[str]
    ) -> None:
        running, over = (200, PODS[0]), (200, bodies.a_pod(0, **bodies.ended(0)))
        server.answers = [(200, b"one\ntwo\n"), running, Broken(), running, (200, b"one\ntwo\nthree\n"), over]
        follow()
        assert capfd.readouterr().out == "one\ntwo\nthree\n"

    def test_a_container_that_is_being_made_is_waited_for(
        self, follow: Callable[..., None], server: Server, time: FakeTime, capfd: pytest.CaptureFixture[str]
    ) -> None:
        early = (400, {"message": 'container "test" in pod "x" is waiting to start: ContainerCreating'})
        server.answers = [early, (200, PODS[0]), (200, b"one\n"), (200, bodies.a_pod(0, **bodies.ended(0)))]
        follow()
        assert capfd.readouterr().out == "one\n"
        assert time.slept == [3]

    def test_the_tail_is_that_of_the_lines_that_are_shown(
        self, follow: Callable[..., None], server: Server, capfd: pytest.CaptureFixture[str]
    ) -> None:
        before = b"one\ntwo\nDISTTEST-PROGRESS 00ff {}\n"
        gone = (404, {"details": {"name": PODS[0]["metadata"]["name"]}, "message": "gone"})
        server.answers = [(200, before), (200, before + b"three\n"), gone]
        follow(tail=1)
        assert capfd.readouterr().out == "two\nthree\n"

    def test_a_run_without_pods_is_waited_for_until_it_has_some(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        said: list[str] = []
        waiting = bodies.waiting("nightly")
        server.answers = [(200, {"items": []}), (200, waiting), (200, {"items": PODS})]
        gang = pod_logs.wait_for(api, waiting, None, time.clock, said.append)
        assert [pod["metadata"]["name"] for pod in gang.pods] == ["nightly-a1-0-abcde", "nightly-a1-1-abcde"]
        assert said == ["nightly has no pods yet; waiting for them"]


def test_a_pod_of_this_index_that_is_gone_is_named() -> None:
    gang = pod_logs.PodGang(run="nightly", attempt=1, pods=(PODS[0],))
    with pytest.raises(UsageError, match=r"attempt 1 of nightly no longer has a pod with node index 1. Available: 0"):
        gang.pod(1)


def test_a_closed_pipe_is_no_traceback(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    at(server, (200, LEADER))
    with io.TextIOWrapper(os.fdopen(writing, "wb", buffering=0)) as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert run(server, tmp_path) == 128 + 13
