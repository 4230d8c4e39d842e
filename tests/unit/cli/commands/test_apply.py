"""`disttest apply` against canned answers: what is tried again, what never is, what is said, and how it ends."""

import json
import os
import pty
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from disttest_cli.commands import apply as apply_command
from disttest_cli.errors import CommandError, UsageError
from disttest_cli.input import applying
from disttest_cli.kube import run_wait
from disttest_cli.kube.client import KubeClient
from disttest_cli.kube.run_wait import DeletedError, OverdueError, WaitedRun
from disttest_cli.main import main
from disttest_cli.views.status_lines import ProgressLines
from disttest_operator.core.api.api_errors import RequestRefusedError
from tests.support.builders import bodies
from tests.support.fakes.canned import NAMESPACE, Broken, CannedWatch, FakeTime, Server, Signal
from tests.support.fakes.terminal import read_to_end

SPEC = {"suites": [{"name": "collectives"}]}
MANIFEST = {
    "apiVersion": "disttest.dev/v1alpha1",
    "kind": "DistTest",
    "metadata": {"generateName": "n-"},
    "spec": SPEC,
}
RUN = WaitedRun(namespace=NAMESPACE, name="n-1", uid="u")
EXISTS = (409, {"message": "exists", "reason": "AlreadyExists"})
NOT_FOUND = (404, {"message": "not found", "details": {"name": "n-1", "kind": "disttests"}})
BUSY = (503, {"message": "later"})


def order(name: str | None = None) -> applying.Order:
    return applying.order(MANIFEST, name=name, namespace="", default_namespace=NAMESPACE)


def body(*, version: int = 1, uid: str = "u", sha256: str = "", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "n-1",
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-03-01T01:30:00Z",
            "annotations": {applying.ANNOTATION_SHA256: sha256 or order().sha256},
        },
        "spec": SPEC,
        "status": status,
    }


def modified(**status: Any) -> dict[str, Any]:
    return {"type": "MODIFIED", "object": body(**status)}


CREATED = (201, body())
PASSED: dict[str, Any] = {
    "phase": "Finished",
    "verdict": "Passed",
    "reason": "AllCasesPassed",
    "message": "3 cases passed",
}


class TestCreating:
    @pytest.mark.parametrize("name", [None, "n-1"])
    def test_a_busy_api_server_is_asked_again(
        self, name: str | None, api: KubeClient, server: Server, time: FakeTime, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.answers = [BUSY, BUSY, (429, {"message": "slow down"}), (409, {"message": "the quota changed"}), CREATED]
        found = apply_command.create(api, order(name), time.clock)
        assert (found.run, found.is_new) == (RUN, True)
        assert time.slept == [3, 3, 3, 3]
        assert capsys.readouterr().err.splitlines() == [
            "disttest: later; retrying for 120 s",
            "disttest: slow down; retrying for 120 s",
            "disttest: the quota changed; retrying for 120 s",
        ]

    def test_patience_ends_with_the_code_that_says_try_again(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [BUSY] * 50
        with pytest.raises(CommandError, match="later") as caught:
            apply_command.create(api, order(), time.clock)
        assert caught.value.code == 42
        assert 100 < time.seconds <= 120

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
    @pytest.mark.parametrize("name", [None, "n-1"])
    def test_a_refusal_is_not_tried_again(
        self, status: int, name: str | None, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [(status, {"message": "spec.nodes:\n  write less", "details": {"name": "gpu-ci"}})]
        with pytest.raises(UsageError, match=r"^spec.nodes: write less$"):
            apply_command.create(api, order(name), time.clock)
        assert len(server.requests) == 1

    def test_a_missing_permission_names_the_role(self, api: KubeClient, server: Server, time: FakeTime) -> None:
        server.answers = [(403, {"message": 'disttests.disttest.dev is forbidden: User "u" cannot create it'})]
        with pytest.raises(
            UsageError, match=r"\. Ask an administrator for the ClusterRole disttest-view or disttest-edit"
        ):
            apply_command.create(api, order(), time.clock)

    def test_what_a_policy_says_is_kept_and_nothing_added(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        said = "disttests \"n\" is forbidden: ValidatingAdmissionPolicy 'disttest-authors' denied request: ask"
        server.answers = [(403, {"message": said})]
        with pytest.raises(UsageError, match=r"^rejected by the policy disttest-authors: ask$"):
            apply_command.create(api, order(), time.clock)

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            (
                'disttests.disttest.dev "n" is forbidden: exceeded quota: gpu, requested: count/disttests=1',
                r"\. Delete DistTests that are no longer needed, or ask an administrator for a larger ResourceQuota",
            ),
            (
                "forbidden: ValidatingAdmissionPolicy 'disttest-authors' with binding 'b' denied request: ask for it",
                r"^rejected by the policy disttest-authors: ask for it$",
            ),
            (
                'DistTest.disttest.dev "n" is invalid: spec: Invalid value: "object": write less',
                "is invalid: spec: .*write less$",
            ),
        ],
        ids=["quota", "policy", "schema"],
    )
    def test_a_refusal_of_the_api_server_can_be_read(
        self, said: str, shown: str, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [(403, {"message": said})]
        with pytest.raises(UsageError, match=shown):
            apply_command.create(api, order(), time.clock)

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            ({"suites": [{"name": "collectives"}], "nods": 2}, "did you mean nodes?"),
            ({"suites": [{"name": "collectives"}], "nodes": 0}, "spec.nodes"),
            ({}, "spec.suites"),
        ],
    )
    def test_what_plan_refuses_is_refused_in_the_same_words_and_not_sent(
        self, spec: Any, words: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "run.yaml"
        file.write_text(json.dumps({**MANIFEST, "spec": spec}))
        assert main(["plan", "-f", str(file)]) == 2
        planned = capsys.readouterr().err
        assert words in planned
        assert main(["apply", "-f", str(file), "--kubeconfig", server.kubeconfig(tmp_path)]) == 2
        assert capsys.readouterr().err == planned
        assert server.requests == []

    @pytest.mark.parametrize("answer", [Broken(), (201, b"not JSON"), (500, {"message": "no"}), (504, b"")], ids=repr)
    def test_an_answer_that_leaves_it_open_is_not_tried_again_where_the_server_makes_the_name(
        self, answer: Any, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [answer, CREATED]
        with pytest.raises(UsageError, match="The DistTest may exist; check with `kubectl get dt -n gpu-ci`"):
            apply_command.create(api, order(), time.clock)
        assert len(server.requests) == 1

    @pytest.mark.parametrize("answer", [Broken(), (201, b"not JSON"), (500, {"message": "no"}), (504, b"")], ids=repr)
    def test_with_a_name_it_is_asked_for_again_and_what_was_made_is_found(
        self, answer: Any, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [answer, EXISTS, (200, body())]
        found = apply_command.create(api, order("n-1"), time.clock)
        assert (found.run, found.is_new) == (RUN, False)
        assert [request.method for request in server.requests] == ["POST", "POST", "GET"]

    def test_a_run_of_this_name_from_another_spec_is_not_taken_for_ours(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [EXISTS, (200, body(sha256="other"))]
        with pytest.raises(UsageError, match="n-1 exists in namespace gpu-ci and was created from another spec"):
            apply_command.create(api, order("n-1"), time.clock)

    def test_a_run_of_this_name_that_is_going_is_waited_for(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [EXISTS, NOT_FOUND, CREATED]
        assert apply_command.create(api, order("n-1"), time.clock).is_new

    def test_a_made_up_name_that_is_taken_is_no_run_of_ours(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [EXISTS, CREATED]
        assert apply_command.create(api, order(), time.clock).is_new
        assert [request.method for request in server.requests] == ["POST", "POST"]

    def test_a_cluster_without_the_kind_says_how_to_install_it(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [(404, {"message": "the server could not find the requested resource", "details": {}})]
        with pytest.raises(UsageError, match=r"docs/operating/installing\.md"):
            apply_command.create(api, order(), time.clock)


def wait(api: KubeClient, time: FakeTime, *, seconds: float = 1000) -> tuple[dict[str, Any], list[str]]:
    """The status, and what was said; warnings begin with `!`."""
    said: list[str] = []
    lines = ProgressLines(say=said.append, now=time.clock.now)
    status = run_wait.wait(
        api, RUN, seconds=seconds, see=lines.see, warn=lambda line: said.append(f"!{line}"), clock=time.clock
    )
    return status, said


class TestWaiting:
    def test_a_line_for_each_change_of_phase_or_message_and_for_nothing_else(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        running: dict[str, Any] = {"phase": "Running", "attempt": 1}
        events = [
            modified(phase="Queued", message="no nodes"),
            modified(phase="Queued", message="no nodes", gpus=8),
            modified(**running),
            modified(**running, progress={"casesDone": 3}),
            modified(**PASSED),
        ]
        server.answers = [(200, body()), CannedWatch(events)]
        status, said = wait(api, time)
        assert status == PASSED
        assert said == ["created, not processed by an operator yet", "Queued: no nodes", "Running"]

    def test_a_run_that_is_finished_already_needs_no_watch(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [(200, body(**PASSED))]
        assert wait(api, time) == (PASSED, [])
        assert len(server.requests) == 1

    def test_it_continues_from_the_newest_version_after_any_end_of_a_watch(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        too_old = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}
        running: dict[str, Any] = {"phase": "Running"}
        server.answers = [
            (200, body(version=1)),
            CannedWatch([]),
            (200, body(version=2)),
            CannedWatch([too_old]),
            (200, body(version=3)),
            (410, {"message": "too old resource version"}),
            (200, body(version=4, **running)),
            CannedWatch([modified(**running)], breaks_off=True),
            Broken(),
            BUSY,
            (200, body(version=5, **PASSED)),
        ]
        status, said = wait(api, time)
        assert status == PASSED
        watches = [request.path for request in server.requests if "watch=true" in request.path]
        assert [path.partition("resourceVersion=")[2][0] for path in watches] == ["1", "2", "3", "4"]
        assert next(line for line in said if line.startswith("!")) == "!too old resource version; retrying"
        assert said[-1] == "!the API server responds again"
        assert said.count("Running") == 1

    def test_an_api_server_that_is_away_is_waited_for_until_the_deadline_and_mentioned_once(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [BUSY] * 500
        said: list[str] = []
        with pytest.raises(OverdueError):
            run_wait.wait(api, RUN, seconds=1000, see=lambda _: None, warn=said.append, clock=time.clock)
        assert said == ["later; retrying"]
        assert time.seconds == 1000

    def test_rights_that_are_taken_away_end_it_after_a_while(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [(200, body()), CannedWatch([]), *([(403, {"message": "may not get"})] * 100)]
        with pytest.raises(RequestRefusedError, match="may not get"):
            wait(api, time)
        assert 120 <= time.seconds < 130

    @pytest.mark.parametrize(
        "answers",
        [
            [NOT_FOUND],
            [(200, body(uid="another"))],
            [(200, body()), CannedWatch([{"type": "DELETED", "object": body()}])],
            [(200, body()), CannedWatch([{"type": "ADDED", "object": body(uid="another", **PASSED)}])],
        ],
        ids=["gone", "another of this name", "deleted in a watch", "another in a watch"],
    )
    def test_a_run_that_is_deleted_is_not_waited_for(
        self, answers: list[Any], api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = answers
        with pytest.raises(DeletedError):
            wait(api, time)

    def test_the_deadline_ends_a_watch_that_tells_and_tells(
        self, api: KubeClient, server: Server, time: FakeTime
    ) -> None:
        server.answers = [
            answer for _ in range(9) for answer in ((200, body()), CannedWatch([modified(phase="Running")]))
        ]
        with pytest.raises(OverdueError):
            wait(api, time, seconds=7)
        assert time.slept == [3, 3, 1]
        limits = [request.path.rpartition("=")[2] for request in server.requests if "watch" in request.path]
        assert limits == ["7", "4", "1"]


class TestCommand:
    def run(self, server: Server, folder: Path, *arguments: str) -> int:
        file = folder / "run.yaml"
        file.write_text(json.dumps(MANIFEST))
        return main(["apply", "-f", str(file), "--kubeconfig", server.kubeconfig(folder), *arguments])

    def test_without_wait_it_prints_the_name_that_the_api_server_gave(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.answers = [CREATED]
        assert self.run(server, tmp_path) == 0
        assert capsys.readouterr().out == "n-1\n"
        metadata = server.requests[0].body["metadata"]
        assert (metadata["generateName"], metadata["namespace"]) == ("n-", NAMESPACE)

    @pytest.mark.parametrize(
        ("verdict", "code"),
        [("Passed", 0), ("TestsFailed", 10), ("Hung", 10), ("TimedOut", 10), ("InfraFailed", 20), ("Errored", 30)],
    )
    def test_with_wait_it_ends_as_the_verdict_says(
        self, verdict: str, code: int, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        end: dict[str, Any] = {"phase": "Finished", "verdict": verdict, "reason": "Because", "message": "of that"}
        server.answers = [CREATED, (200, body()), CannedWatch([modified(**end)])]
        assert self.run(server, tmp_path, "--wait") == code
        assert capsys.readouterr().out.splitlines() == [
            "n-1: created in namespace gpu-ci; waiting up to 11820 s for its verdict",
            "n-1: created, not processed by an operator yet",
            *(["n-1: for details, run: disttest describe n-1 -n gpu-ci"] if code else []),
            f"n-1: {verdict} (Because): of that",
        ]

    def test_at_a_terminal_failures_stand_above_the_foot_which_goes_at_the_end(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = bodies.going_on()["status"]
        server.answers = [CREATED, (200, body()), CannedWatch([modified(**running), modified(**PASSED)])]
        main_end, end = pty.openpty()
        written: list[bytes] = []
        reader = threading.Thread(target=lambda: written.append(read_to_end(main_end)))
        reader.start()
        monkeypatch.setenv("TERM", "xterm")
        with os.fdopen(end, "w") as stream:
            monkeypatch.setattr("sys.stdout", stream)
            assert self.run(server, tmp_path, "--wait") == 0
        reader.join()
        os.close(main_end)
        text = b"".join(written).decode()
        assert text.index("correctness.py::test_all_reduce") < text.index("n-1: Passed (AllCasesPassed)")
        assert "\x1b]0;" not in text, "a case's name must not set the title"

    def test_the_same_command_again_waits_for_the_same_run(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.answers = [EXISTS, (200, body()), (200, body(**PASSED))]
        assert self.run(server, tmp_path, "--wait", "--name", "n-1") == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert first.startswith("n-1: exists since 2026-03-01T01:30:00Z with the same spec in namespace gpu-ci;")

    def test_a_run_that_is_deleted_has_a_code_of_its_own(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.answers = [CREATED, NOT_FOUND]
        assert self.run(server, tmp_path, "--wait") == 40
        assert capsys.readouterr().err == "disttest: n-1 was deleted before its verdict\n"

    def test_without_a_verdict_in_time_the_message_says_that_the_run_continues(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.answers = [CREATED, (200, body()), CannedWatch([])]
        assert self.run(server, tmp_path, "--wait", "--timeout", "1") == 41
        assert (
            "no verdict within 1 s; n-1 continues. To wait for it, run: kubectl wait -n gpu-ci"
            in capsys.readouterr().err
        )

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_a_signal_leaves_the_run_alone_and_says_how_to_follow_it(
        self,
        number: signal.Signals,
        code: int,
        server: Server,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        server.answers = [CREATED, (200, body()), Signal(number)]
        before = signal.getsignal(number)
        assert self.run(server, tmp_path, "--wait") == code
        error = capsys.readouterr().err
        assert error.startswith(
            f"disttest: interrupted by {number.name}; n-1 continues. To wait for it, run: kubectl wait"
        )
        assert signal.getsignal(number) is before

    def test_a_signal_before_the_answer_leaves_open_whether_there_is_a_run(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.answers = [Signal(signal.SIGTERM)]
        assert self.run(server, tmp_path, "--wait") == 143
        assert capsys.readouterr().err == "disttest: interrupted by SIGTERM; the DistTest may exist\n"

    def test_what_makes_no_sense_ends_with_2_in_one_line(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(server, tmp_path, "--timeout", "5") == 2
        assert self.run(server, tmp_path, "--name", "No") == 2
        assert main(["apply", "-f", str(tmp_path / "no.yaml")]) == 2
        assert main(["apply", "-f", str(tmp_path / "run.yaml"), "--kubeconfig", str(tmp_path / "none")]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert [line.partition(":")[0] for line in lines] == ["disttest"] * 4
        assert server.requests == []
