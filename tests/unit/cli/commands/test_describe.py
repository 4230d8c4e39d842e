"""`disttest describe`: one screen about a run, whatever its status holds."""

import base64
import copy
import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from disttest_cli.formats import advice
from disttest_cli.formats.advice import ENDINGS
from disttest_cli.main import main
from disttest_cli.views import description, description_tables, run_list
from disttest_cli.views.description import DescribedRun
from disttest_contract.outcomes import Outcome, Reason
from disttest_contract.results.report import CaseResult
from tests.support import golden
from tests.support.builders import bodies
from tests.support.builders.bodies import NAMESPACE, NOW
from tests.support.builders.runs import a_report_of
from tests.support.fakes.canned import Server

REPORT = a_report_of(
    CaseResult(id="t.py::test_fast", outcome=Outcome.PASSED, seconds=0.01),
    CaseResult(id="t.py::test_\x1b[1mslow", outcome=Outcome.PASSED, seconds=30),
    CaseResult(id="t.py::test_slower", outcome=Outcome.HUNG, seconds=60),
)
RUNS = {
    "passed": DescribedRun(body=bodies.passed(), now=NOW, report=REPORT),
    "failed": DescribedRun(
        body=bodies.failed(),
        now=NOW,
        pods=[
            bodies.a_pod(1, attempt=1, run="bad", **bodies.ended(137, "OOMKilled")),
            bodies.a_pod(0, attempt=2, run="bad", node="gpu-1", **bodies.ended(10)),
            bodies.a_pod(1, attempt=2, run="bad", node="gpu-3", **bodies.ended(10)),
        ],
        events=[
            bodies.an_event(3000, "TestsFailed", "CasesFailed: 2 of 412\ncases failed", kind="Warning"),
            bodies.an_event(3500, "Created", "created the gang of attempt 1"),
        ],
        notes=['report: configmaps "bad-report" is forbidden'],
    ),
    "going-on": DescribedRun(
        body=bodies.going_on(), now=NOW, pods=[bodies.a_pod(0, run="now"), bodies.a_pod(1, run="now")]
    ),
    "waiting": DescribedRun(
        body=bodies.waiting(),
        now=NOW,
        pods=[bodies.a_pod(0, run="later", phase="Pending")],
    ),
    "new": DescribedRun(body=bodies.a_run("new", created=1), now=NOW),
}


def screen(seen: DescribedRun) -> str:
    return "".join(f"{line.plain}\n" for line in (*description.summary(seen), *description_tables.all_of(seen)))


@pytest.mark.parametrize("name", RUNS)
def test_a_screen_says_what_why_where_and_what_to_do(name: str, *, updates_golden: bool) -> None:
    text = screen(RUNS[name])
    assert "\x1b" not in text
    assert "\x07" not in text
    golden.check(text, f"describe-{name}.txt", updates=updates_golden)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_advice_in_a_sentence(reason: Reason) -> None:
    [first, *_] = advice.for_status({"verdict": "Errored", "reason": reason.value})
    assert first == ENDINGS[reason]
    assert first[0].isupper()
    assert first[-1] in ".?"


@pytest.mark.parametrize("reason", [*advice.WAITS, Reason.NODE_LOST.value, "NewerThanWe"])
def test_every_reason_to_wait_has_advice(reason: str) -> None:
    gang = {"type": "GangReady", "status": "False", "reason": reason}
    said = advice.for_status({"phase": "Queued", "conditions": [gang]})
    assert said == ([] if reason == "GangRunning" else [said[0]])


def test_a_reason_of_a_newer_operator_has_advice_too() -> None:
    assert advice.for_status({"verdict": "Passed", "reason": "Brighter"}) == [advice.UNKNOWN]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field inside, however deep."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_other(body: dict[str, Any], path: tuple[Any, ...], other: Any) -> dict[str, Any]:
    changed = copy.deepcopy(body)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    return changed


@pytest.mark.parametrize("name", RUNS)
def test_an_odd_status_is_shown_as_far_as_it_goes(name: str) -> None:
    """Each field in turn is something else than it should be: three of these, another three for its neighbour."""
    seen = RUNS[name]
    odd: tuple[Any, ...] = (None, 7, -1.5, "odd", [], [None, "x"], {}, {"a": [1]}, True, 1e30)
    others = itertools.cycle(odd)
    for path, other in ((path, next(others)) for path in places(seen.body) for _ in range(3)):
        body = with_other(seen.body, path, other)
        text = screen(DescribedRun(body=body, now=NOW, pods=[*seen.pods, body], events=[*seen.events, body]))
        assert text, (path, other)
        assert len(run_list.table([body], now=NOW, wide=True, namespaces=True)) == 2, (path, other)


def answers(report: bytes = b"") -> list[Any]:
    packed = base64.b64encode(gzip.compress(report or REPORT.dumps())).decode()
    body = bodies.failed("nightly")
    body["status"]["report"] = {"configMap": "nightly-report"}
    return [
        (200, body),
        (200, {"items": [bodies.a_pod(0)]}),
        (200, {"items": [bodies.an_event(5, "Created", "it")]}),
        (200, body),
        (200, {"metadata": {"name": "nightly-report"}, "binaryData": {"report.json.gz": packed}}),
    ]


def run(server: Server, folder: Path, *arguments: str) -> int:
    return main(["describe", "--kubeconfig", server.kubeconfig(folder), *arguments])


def test_what_belongs_to_the_run_is_looked_at_too(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = answers()
    assert run(server, tmp_path, "disttest.disttest.dev/nightly") == 0
    text = capsys.readouterr().out
    assert "test_slower" in text
    assert "nightly-a1-0-abcde" in text
    assert "Not shown" not in text
    assert f"disttest.dev%2Fuid%3D{bodies.UID}" in server.requests[1].path
    assert f"involvedObject.uid%3D{bodies.UID}" in server.requests[2].path


def test_what_may_not_be_seen_is_left_out_and_said(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = answers()
    for place in (1, 2, 4):
        server.answers[place] = (403, {"message": f"number {place} is forbidden"})
    assert run(server, tmp_path, "nightly") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("Not shown") + 1 :] == [
        "  pods: number 1 is forbidden",
        "  events: number 2 is forbidden",
        (
            "  report: number 4 is forbidden. Ask an administrator for the ClusterRole view or edit, which include "
            "disttest-view and disttest-edit."
        ),
    ]


@pytest.mark.parametrize(
    ("name", "there", "words"),
    [
        (
            "nightl",
            ["nightly", "other"],
            "DistTest 'nightl' does not exist in namespace gpu-ci. Did you mean 'nightly'?",
        ),
        (
            "x",
            ["nightly"],
            "DistTest 'x' does not exist in namespace gpu-ci. To list all namespaces, run `disttest list -A`.",
        ),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_like_it(
    name: str,
    there: list[str],
    words: str,
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = (404, {"message": "not found", "details": {"name": name}})
    server.answers = [missing, (200, {"items": [bodies.passed(one) for one in there]})]
    assert run(server, tmp_path, name) == 2
    assert capsys.readouterr().err == f"disttest: {words}\n"


@pytest.mark.parametrize("name", ["../secrets/x", "pod/x", "", "a?b"])
def test_an_invalid_name_sends_no_request(
    name: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(server, tmp_path, name) == 2
    assert server.requests == []
    assert "is not a valid name of a DistTest" in capsys.readouterr().err


def test_the_object_itself_is_printed_on_demand(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [(200, bodies.passed())]
    assert run(server, tmp_path, "good", "-o", "name") == 0
    assert capsys.readouterr().out == "disttest.disttest.dev/good\n"
    assert NAMESPACE in server.requests[0].path
