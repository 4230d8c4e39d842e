"""How the demo handles results of `disttest` and kubectl, with programs that record their calls."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml

from devcluster import command_line
from devcluster.controlplane.lifecycle import DevCluster
from disttest_cli.input import applying
from disttest_runner.compat import override
from tools.demo import demo
from tools.demo import session as demo_session
from tools.demo.current_cluster import CurrentCluster, Images, with_images
from tools.demo.session import DemoError, Session

COMMAND = """
import json, pathlib, sys, time
folder, arguments = pathlib.Path(sys.argv[1]), sys.argv[2:]
with (folder / "calls").open("a") as calls:
    print(" ".join(arguments), file=calls)
answer = json.loads((folder / "answers").read_text()).get(next(filter(lambda one: one[0] != "-", arguments)), {})
print(answer.get("says", ""))
while answer.get("hangs"):
    time.sleep(1)
sys.exit(answer.get("code", 0))
"""


class Played(Session):
    """A session whose programs return results from a table."""

    def __init__(self, folder: Path, **answers: dict[str, object]) -> None:
        command = (sys.executable, "-I", "-S", "-c", COMMAND, str(folder))
        super().__init__(command, os.environ, folder)
        self.command_line = command
        self.folder = folder
        (folder / "answers").write_text(json.dumps(answers))
        (folder / "calls").touch()

    @override
    def install(self) -> None:
        self.kubectl("apply")

    def calls(self) -> list[str]:
        return [line.split()[0] for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """HOLD=1, and a user who presses Ctrl-C at once."""
    sessions: list[Session] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    real = demo.hold

    def hold(session: Session) -> None:
        sessions.append(session)
        real(session)

    monkeypatch.setenv(demo.HOLD_VARIABLE, "1")
    monkeypatch.setattr(signal, "pause", interrupted)
    monkeypatch.setattr(demo, "hold", hold)
    return sessions


SHOWN = ["report", "report", "describe", "list"]


@pytest.mark.parametrize("sample", ["cpu-all", "cpu-smoke"])
def test_the_demo_waits_longer_than_a_run_may_take_by_its_own_timeouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str
) -> None:
    bounds: list[float] = []

    def run(_self: Session, *_arguments: str, seconds: float, waits_for: str) -> int:
        bounds.append(seconds)
        return 0

    monkeypatch.setattr(Session, "disttest", run)
    file = demo_session.ROOT / "manifests" / "samples" / f"{sample}.yaml"
    Played(tmp_path).run(file)
    assert bounds[0] >= applying.budget_seconds(yaml.safe_load(file.read_text())["spec"]) + 30


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({}, 0),
        ({"apply": {"code": 10}}, 10),
        ({"apply": {"code": 41}, "report": {"code": 2, "says": "no report"}}, 41),
        ({"report": {"code": 2}}, demo.NO_VERDICT),
        ({"describe": {"code": 2}, "list": {"code": 2}}, demo.NO_VERDICT),
    ],
    ids=["passed", "failed", "without a verdict", "without a report", "with steps that fail"],
)
def test_everything_there_is_of_a_run_is_shown_and_held(
    tmp_path: Path,
    held: list[Session],
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, dict[str, object]],
    code: int,
) -> None:
    session = Played(tmp_path, **answers)
    monkeypatch.setattr(Session, "kubectl", lambda *_arguments, **_options: "")
    assert demo.present(session, ["collectives"]) == code
    assert session.calls() == ["apply", *SHOWN]
    assert held == [session]


def test_a_run_that_outlives_the_demo_is_shown_with_what_was_waited_for(
    tmp_path: Path, held: list[Session], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_session, "SLACK_SECONDS", 0)
    monkeypatch.setattr(applying, "budget_seconds", lambda _spec: 0.5)
    session = Played(tmp_path, apply={"hangs": True})
    monkeypatch.setattr(Session, "kubectl", lambda *_arguments, **_options: "")
    assert demo.present(session, ["collectives"]) == demo.NO_VERDICT
    assert session.calls()[1:] == SHOWN
    assert held == [session]
    assert "it waited for the verdict of demo" in capfd.readouterr().err


def test_an_operator_that_does_not_become_ready_is_held_too(
    tmp_path: Path, held: list[Session], capfd: pytest.CaptureFixture[str]
) -> None:
    session = Played(tmp_path, apply={"code": 1})
    assert demo.present(session, ["collectives"]) == demo.NO_VERDICT
    assert held == [session]
    assert "demo: kubectl apply" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("", demo.FIRST_SUITES),
        ("collectives", ("collectives",)),
        ("c10d-spawn, collectives", ("c10d-spawn", "collectives")),
    ],
    ids=str,
)
def test_suites_are_named_with_commas_between_them(asked: str, expected: tuple[str, ...]) -> None:
    assert demo.suites(asked) == expected
    assert [suite["name"] for suite in demo.disttest_of(expected)["spec"]["suites"]] == list(expected)


def test_all_suites_are_those_of_the_sample_and_the_first_few_are_among_them() -> None:
    assert len(demo.suites("all")) == 6
    assert set(demo.FIRST_SUITES) < set(demo.suites("all"))


def test_an_unknown_suite_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(DemoError, match=r"unknown suites: colectives.*all, c10d-spawn, collectives, "):
        demo.suites("colectives")


@pytest.mark.parametrize("installed", ["/usr/bin/kubectl", None])
def test_kubectl_is_offered_where_none_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    binary = tmp_path / "kubedev"
    binary.touch(mode=0o755)
    monkeypatch.setattr(command_line, "kubectl", lambda _say: (str(binary), "kubectl"))
    monkeypatch.setattr(demo.Demo, "metrics_url", lambda _self: "https://10.0.0.1:8443/metrics")
    monkeypatch.setattr(shutil, "which", lambda _name: installed)
    path = demo.Demo(DevCluster(tmp_path), tmp_path).hints()[1]
    link = tmp_path / "bin" / "kubectl"
    assert path.strip().startswith("export PATH=")
    assert (f"PATH={link.parent}:" in path, link.exists()) == ((False, False) if installed else (True, True))
    if not installed:
        assert link.resolve() == binary


IMAGES = Images(operator="kind.local/operator:1", runner="kind.local/runner:1")


def test_the_images_of_another_cluster_are_those_of_its_operator_and_its_runs() -> None:
    container = {"image": "disttest-operator:dev", "args": ["--runner-image=disttest-runner:dev", "--other"]}
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}
    [_, changed] = with_images([{"kind": "Namespace"}, deployment], IMAGES)
    assert changed["spec"]["template"]["spec"]["containers"] == [
        {"image": "kind.local/operator:1", "args": ["--runner-image=kind.local/runner:1", "--other"]}
    ]


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"version": "1.30"}, "Kubernetes 1.31 or newer is required"),
        ({"get": "crd/disttests.disttest.dev\n"}, "installed there already"),
    ],
    ids=["too old", "has DistTest"],
)
def test_a_cluster_that_cannot_be_left_as_it_was_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, str], problem: str
) -> None:
    major, minor = answers.get("version", "1.36").split(".")
    version = {"serverVersion": {"major": major, "minor": minor, "gitVersion": f"v{major}.{minor}.0"}}
    said: dict[str, str] = {"version": json.dumps(version), "get": answers.get("get", "")}
    monkeypatch.setattr(Session, "kubectl", lambda _self, verb, *_others, **_options: said[verb])
    with pytest.raises(DemoError, match=problem):
        CurrentCluster(("kubectl",), tmp_path, IMAGES).check()
