"""Whatever names, messages and answers hold: what a command prints steers no terminal, no reader and no CI system."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_cli.main import main
from disttest_contract.results.report import Report
from tests.support.builders import bodies
from tests.support.fakes.canned import Answer, CannedWatch, Server
from tests.support.reports.hostile import ARGUMENT, NASTY, a_hostile_file, forbidden, poisoned
from tests.unit.cli.commands import test_apply as applied
from tests.unit.cli.commands.test_compare import a_series
from tests.unit.cli.commands.test_compare import stored as stored_report
from tests.unit.cli.commands.test_doctor import ANSWERS as OF_DOCTOR
from tests.unit.cli.commands.test_history import a_ledger

MARK = "owned"  # is in every nasty text: it did reach the output
FILE = a_hostile_file()
REPORT = Report.loads(FILE)
RUNS = [poisoned(one) for one in (bodies.failed(), bodies.passed(), bodies.going_on(), bodies.waiting())]
FAILED = poisoned(bodies.failed("nightly"), "attempt", "configMap")
FAILED["status"]["report"] = {"configMap": "nightly-report"}
FAILED["metadata"]["uid"] = REPORT.uid
GOING_ON = poisoned(bodies.going_on("nightly"))
PODS = [
    poisoned(bodies.a_pod(0, attempt=2), "labels"),
    poisoned(bodies.a_pod(1, attempt=2, **bodies.ended(137)), "labels"),
]
CLEAN = ARGUMENT.replace("\udcff", "")  # what YAML can hold
EVENTS = [poisoned(bodies.an_event(5, "Created", "it", kind="Warning"))]
LOG = b"\n".join(f"{prefix}{NASTY}".encode(errors="replace") for prefix in ("", "[rank 0] ", "[rank 8] "))
REFUSED: Answer = (422, {"message": NASTY})
FORBIDDEN: Answer = (403, {"message": NASTY})
MISSING: Answer = (404, {"message": NASTY, "details": {"name": "nightly"}})
LEDGER = poisoned(a_ledger())
KEPT = [*stored_report(REPORT)]
MANIFEST = json.dumps(applied.MANIFEST).encode()


def listing(*items: Any) -> Answer:
    return 200, {"items": list(items)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Arguments of a command and answers of the API server; `files` are in its working directory."""

    arguments: Sequence[str]
    answers: Sequence[Answer] = ()
    code: int = 0
    mark: str = MARK
    files: dict[str, bytes] = field(default_factory=dict)


def of_a_file(*arguments: str) -> Case:
    return Case(arguments=("report", "-f", "report.json", *arguments), files={"report.json": FILE})


def followed(**status: Any) -> list[Answer]:
    """A run that is created, and runs until its verdict."""
    events = [{"type": "MODIFIED", "object": applied.body(**(one["status"] | status))} for one in (GOING_ON, FAILED)]
    return [applied.CREATED, (200, applied.body(**GOING_ON["status"])), CannedWatch(events=events)]


CASES = {
    "list": Case(arguments=("list",), answers=[listing(*RUNS)]),
    "list wide": Case(arguments=("list", "-A", "-o", "wide"), answers=[listing(*RUNS)]),
    "list json": Case(arguments=("list", "-o", "json"), answers=[listing(*RUNS)]),
    "list yaml": Case(arguments=("list", "-o", "yaml"), answers=[listing(*RUNS)]),
    "list name": Case(arguments=("list", "-o", "name"), answers=[listing(*RUNS)]),
    "list refused": Case(arguments=("list",), answers=[REFUSED], code=2),
    "list forbidden": Case(arguments=("list",), answers=[FORBIDDEN], code=2),
    "list of nothing": Case(arguments=("list", "-n", ARGUMENT), answers=[listing()]),
    "describe": Case(
        arguments=("describe", "nightly"),
        answers=[(200, FAILED), listing(*PODS), listing(*EVENTS), (200, FAILED), KEPT[1]],
    ),
    "describe running": Case(arguments=("describe", "nightly"), answers=[(200, GOING_ON), FORBIDDEN, FORBIDDEN]),
    "describe json": Case(arguments=("describe", "nightly", "-o", "json"), answers=[(200, FAILED)]),
    "describe yaml": Case(arguments=("describe", "nightly", "-o", "yaml"), answers=[(200, FAILED)]),
    "describe name": Case(arguments=("describe", "nightly", "-o", "name"), answers=[(200, FAILED)]),
    "describe missing": Case(arguments=("describe", "nightly"), answers=[MISSING, listing(*RUNS)], code=2, mark=""),
    "logs": Case(arguments=("logs", "nightly"), answers=[(200, FAILED), listing(*PODS), (200, LOG)]),
    "logs all": Case(
        arguments=("logs", "nightly", "--all"), answers=[(200, FAILED), listing(*PODS), (200, LOG), (200, LOG)]
    ),
    "logs failed": Case(
        arguments=("logs", "nightly", "--failed"),
        answers=[(200, FAILED), listing(*PODS), MISSING, (200, LOG)],
        mark="rank 8",
    ),
    "logs without pods": Case(
        arguments=("logs", "nightly"), answers=[(200, FAILED), listing(), (200, FAILED), KEPT[1]]
    ),
    "logs without report": Case(
        arguments=("logs", "nightly"), answers=[(200, FAILED), listing(), MISSING, listing(), MISSING]
    ),
    **{f"report {name}": of_a_file("-o", name) for name in ("text", "json", "junit", "ctrf", "html", "markdown")},
    "report of no report": Case(
        arguments=("report", "-f", "report.json"), files={"report.json": json.dumps({"schema": NASTY}).encode()}, code=2
    ),
    "report of a run": Case(arguments=("report", "nightly"), answers=[(200, FAILED), KEPT[1]]),
    "report of a run without one": Case(
        arguments=("report", "nightly"), answers=[(200, FAILED | {"status": FAILED["status"] | {"report": {}}})], code=2
    ),
    "report of another run": Case(
        arguments=("report", "nightly"),
        answers=[(200, FAILED | {"metadata": {"uid": "another"}}), KEPT[1]],
        code=2,
    ),
    "report of an odd name": Case(arguments=("report", "-f", ARGUMENT), code=2),
    "history": Case(arguments=("history", "nightly"), answers=[(200, LEDGER)]),
    "history wide": Case(arguments=("history", "nightly", "-o", "wide"), answers=[(200, LEDGER)]),
    "history json": Case(arguments=("history", "nightly", "-o", "json"), answers=[(200, LEDGER)]),
    "history yaml": Case(arguments=("history", "nightly", "-o", "yaml"), answers=[(200, LEDGER)]),
    "history name": Case(arguments=("history", "nightly", "-o", "name"), answers=[(200, LEDGER)]),
    "history of all": Case(arguments=("history", "-A"), answers=[listing(LEDGER)]),
    "history of all yaml": Case(arguments=("history", "-o", "yaml"), answers=[listing(LEDGER)]),
    "history of all names": Case(arguments=("history", "-o", "name"), answers=[listing(LEDGER)]),
    "history missing": Case(arguments=("history", "nightly"), answers=[MISSING, listing(LEDGER)], code=2),
    **{
        f"compare {name}": Case(
            arguments=("compare", "./a.json", "./b.json", "--exit-zero", *options),
            files={
                "a.json": FILE,
                "b.json": FILE.replace(b'"passed"', b'"failed"').replace(b'"Passed"', b'"TestsFailed"'),
            },
        )
        for name, options in {"text": (), "json": ("-o", "json"), "markdown": ("-o", "markdown")}.items()
    },
    "compare runs": Case(
        arguments=("compare", "nightly", "nightly", "--against", "2", "--exit-zero"),
        answers=[*KEPT, *KEPT, a_series(REPORT), MISSING],
        code=2,
        mark="series",
    ),
    "compare an odd night": Case(arguments=("compare", f"{ARGUMENT}@0", "b"), code=2),
    "apply": Case(
        arguments=("apply", "-f", "run.yaml"), answers=[applied.CREATED], files={"run.yaml": MANIFEST}, mark="n-1"
    ),
    "apply refused": Case(
        arguments=("apply", "-f", "run.yaml"), answers=[REFUSED], files={"run.yaml": MANIFEST}, code=2
    ),
    "apply and wait": Case(
        arguments=("apply", "-f", "run.yaml", "--wait"), answers=followed(), files={"run.yaml": MANIFEST}, code=10
    ),
    "apply what is no YAML": Case(
        arguments=("apply", "-f", "run.yaml"),
        files={"run.yaml": f"{MARK}: [\x1b::error::{{".encode()},
        code=2,
        mark="YAML",
    ),
    "plan": Case(
        arguments=("plan", "-f", "run.yaml"),
        files={
            "run.yaml": yaml.safe_dump(
                poisoned(applied.MANIFEST, "name", "generateName")
                | {
                    "spec": {
                        "suites": [{"name": "collectives"}],
                        "env": [{"name": "X", "value": CLEAN}],
                    }
                }
            ).encode()
        },
    ),
    "plan json": Case(
        arguments=("plan", "-f", "run.yaml", "-o", "json"),
        files={
            "run.yaml": yaml.safe_dump(
                applied.MANIFEST
                | {
                    "spec": {
                        "suites": [{"name": "collectives"}],
                        "env": [{"name": "X", "value": CLEAN}],
                    }
                }
            ).encode()
        },
    ),
    "plan of what is wrong": Case(
        arguments=("plan", "-f", "run.yaml"),
        files={"run.yaml": json.dumps(poisoned(applied.MANIFEST) | {"x\x1b[2J::owned": NASTY}).encode()},
        code=2,
    ),
    "run of what is wrong": Case(
        arguments=("run", "-f", "run.yaml"),
        files={"run.yaml": json.dumps(poisoned(applied.MANIFEST) | {"x\x1b[2J::owned": NASTY}).encode()},
        code=2,
    ),
    "run of an odd suite": Case(arguments=("run", "--suite", ARGUMENT), code=2),
    "run of an odd path": Case(arguments=("run", ARGUMENT), code=2),
    "doctor": Case(
        arguments=("doctor",),
        answers=[
            (200, poisoned(one[1], "labels", "renewTime", "gpus"))
            if isinstance(one, tuple) and one[0] < 400
            else MISSING
            for one in OF_DOCTOR.values()
        ],
        code=30,
    ),
    "doctor forbidden": Case(arguments=("doctor",), answers=[FORBIDDEN] * 20, code=30),
    "doctor json": Case(arguments=("doctor", "-o", "json"), answers=[FORBIDDEN] * 20, code=30),
    "doctor yaml": Case(arguments=("doctor", "-o", "yaml"), answers=[FORBIDDEN] * 20, code=30),
    "an odd command": Case(arguments=(ARGUMENT,), code=2),
    "an odd option": Case(arguments=("list", f"--owned{ARGUMENT}"), code=2),
    "an odd value": Case(arguments=("list", "-o", ARGUMENT), code=2),
    "an odd context": Case(arguments=("list", "--context", ARGUMENT), code=2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_that_is_printed_steers_anybody(
    case: Case, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path))
    for name, content in case.files.items():
        Path(name).write_bytes(content)
    server.answers = list(case.answers)
    assert main(list(case.arguments)) == case.code, capfd.readouterr().err
    out, err = capfd.readouterr()
    assert forbidden(out) == []
    assert forbidden(err) == []
    assert err.count("\n") <= 1, "an error is one line"
    assert case.mark in out + err, "the nasty text was there to be shown"
