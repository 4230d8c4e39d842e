"""`disttest plan`: what the operator would create, from a file alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_cli.main import main
from disttest_contract.gang.plan import RunPlan
from disttest_operator.core.api.model import Defaults, Timeouts
from disttest_operator.core.api.parse import parse
from tests.data.wrong import Wrong
from tests.data.wrong_manifests import WRONG
from tests.support import golden
from tests.support.paths import ROOT
from tests.unit.cli.test_main import ended

SAMPLES = ROOT / "manifests/samples"

SMALL = {
    "apiVersion": "disttest.dev/v1alpha1",
    "kind": "DistTest",
    "metadata": {"generateName": "small-"},
    "spec": {"suites": [{"name": "collectives"}], "gpusPerNode": 0},
}


def write(folder: Path, *documents: Any) -> str:
    path = folder / "file.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    assert main(["plan", *arguments]) == 0
    return [document for document in yaml.safe_load_all(capsys.readouterr().out) if document]


def job_env(job: Any) -> dict[str, str]:
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return {entry["name"]: entry.get("value", "") for entry in env}


def test_a_plan_has_service_and_job_and_says_what_they_come_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, updates_golden: bool
) -> None:
    spec = {
        "series": "nightly",
        "suites": [{"name": "collectives"}, {"name": "mine", "configMap": {"name": "my-tests"}}],
        "nodes": 2,
        "quarantine": {"configMap": {"name": "known"}},
        "artifacts": {"persistentVolumeClaim": "dumps"},
        "queueName": "gpus",
        "template": {"spec": {"serviceAccountName": "runner"}},
    }
    known = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "known", "namespace": "gpu-ci"},
        "data": {"collectives": "t.py::test_known\n"},
    }
    large = {**SMALL, "metadata": {"name": "large", "namespace": "gpu-ci"}, "spec": spec}
    file = write(tmp_path, large, known)
    assert main(["plan", "-f", file, "--runner-image", "registry/runner:1", "--run-seconds", "600"]) == 0
    golden.check(capsys.readouterr().out, "plan.yaml", updates=updates_golden)


def test_what_the_administrator_must_allow_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod: Any = {
        "hostNetwork": True,
        "securityContext": {"runAsUser": 0, "capabilities": {"add": ["IPC_LOCK"]}},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "sets"}}],
    }
    spec = {"suites": [{"name": "collectives"}], "template": {"spec": pod}}
    file = write(tmp_path, {**SMALL, "spec": spec})
    assert main(["plan", "-f", file, "-n", "ci"]) == 0
    remarks = capsys.readouterr().out.partition("---")[0].splitlines()
    assert remarks[-2:] == [
        "# required in namespace ci: PersistentVolumeClaim sets",
        (
            "# required flag of the operator: "
            "--allow=ci/host-network,ci/root,ci/capability:IPC_LOCK (docs/operating/security.md)"
        ),
    ]


def test_several_and_those_without_a_name_are_planned_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, SMALL, {**SMALL, "metadata": {"name": "other"}})
    found = planned(capsys, "-f", file, "-n", "mine")
    names = [(one["kind"], one["metadata"]["namespace"], one["metadata"]["name"]) for one in found]
    assert names == [
        ("Service", "mine", "small-local-a1"),
        ("Job", "mine", "small-local-a1"),
        ("Service", "mine", "other-a1"),
        ("Job", "mine", "other-a1"),
    ]


def test_flags_are_the_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is what the operator builds from the same defaults."""
    flags = {"queue": "61", "rendezvous": "62", "case": "63", "run": "64"}
    arguments = [part for name, value in flags.items() for part in (f"--{name}-seconds", value)]
    file = write(tmp_path, {**SMALL, "spec": {"suites": [{"name": "collectives"}], "nodes": 1}})
    _, job = planned(capsys, "-f", file, *arguments, "--gpu-resource", "amd.com/gpu", "--runner-image", "x:1")
    defaults = Defaults(
        image="x:1",
        gpu_resource="amd.com/gpu",
        timeouts=Timeouts(queue_seconds=61, rendezvous_seconds=62, case_seconds=63, run_seconds=64),
    )
    spec = parse(yaml.safe_load(Path(file).read_text()), defaults).spec
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == spec.image
    assert container["resources"]["limits"] == {spec.gpu_resource: "8"}
    plan = RunPlan.from_json(job_env(job)["DISTTEST_PLAN"])
    assert (plan.rendezvous_seconds, plan.case_seconds, plan.run_seconds) == (62, 63, 64)


def test_json_is_one_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", write(tmp_path, SMALL), "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [item["kind"] for item in printed["items"]] == ["Service", "Job"]


@pytest.mark.parametrize("name", ["cpu-smoke", "gpu-1x8", "gpu-2x8-nccl", "gpu-2x8-rdma", "own-image", "quarantine"])
def test_samples_can_be_planned(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert {"Service", "Job"} == {one["kind"] for one in planned(capsys, "-f", str(SAMPLES / f"{name}.yaml"))}


@pytest.mark.parametrize("wrong", WRONG[::12], ids=lambda wrong: wrong.id)
def test_a_wrong_manifest_is_answered_in_the_api_servers_words(
    wrong: Wrong, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "-f", write(tmp_path, wrong.manifest)]) == 2
    error = capsys.readouterr().err
    assert " ".join(wrong.parser.split()) in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "arguments", "words"),
    [
        ({"spec": {"suites": [{"name": "colectives"}]}}, (), "suite 'colectives' is unknown. Known suites: "),
        ({"metadata": {"name": "x", "namespace": "there"}}, ("-n", "here"), "Remove one."),
        ({}, ("--queue-seconds", "soon"), "--queue-seconds: must be an integer from "),
        ({}, ("--case-seconds", "70", "--run-seconds", "60"), "--case-seconds is longer than the run timeout"),
        ({}, ("--runner-image", "no image"), "--runner-image: "),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    changes: dict[str, Any],
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "-f", write(tmp_path, SMALL | changes), *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert words in error
    assert error.count("\n") == 1


def test_it_works_without_the_kubernetes_package(tmp_path: Path) -> None:
    code, error = ended("plan", "-f", write(tmp_path, SMALL), absent=("kubernetes", "disttest_runner", "torch"))
    assert (code, error) == ("0 yaml", "")
