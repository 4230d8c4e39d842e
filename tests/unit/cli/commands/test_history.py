"""`disttest history`: what it makes of a ledger that the operator has folded, and how it ends without one."""

import dataclasses
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_cli.kube import series as ledgers
from disttest_cli.main import main
from disttest_cli.views import series_text
from disttest_contract.outcomes import Outcome, Verdict
from tests.support import golden
from tests.support.builders.compared import a_case
from tests.support.builders.measured import GB, a_measured_case, a_measurement
from tests.support.builders.runs import a_flaky_case
from tests.support.builders.series import Nights
from tests.support.fakes.canned import NAMESPACE, Broken, Server

Answer = tuple[int, Any]
STEERING = "\x1b[31mred\x1b[0m\r\nsecond line \u202e"
BLAMED = {"name": "node1", "reason": "NodeUnhealthy", "evidence": "Xid 79", "confirmed": True}
NOW = datetime(2026, 11, 29, 9, 0, tzinfo=UTC)


def a_ledger() -> dict[str, Any]:
    """Of eight nights, as the operator folds it."""
    series = Nights()
    took: dict[str, Any] = {"durationSeconds": 731.5}
    good, broken = a_case("c.py::test_a"), a_case("c.py::test_a", Outcome.HUNG, message=f"rank 3 waits {STEERING}")
    other, flaky = a_case("c.py::test_b"), dataclasses.replace(a_flaky_case(), id="c.py::test_b")
    speed = a_measured_case(a_measurement(380 * GB), a_measurement(3 * GB, size_bytes=4096), name="test_speed")
    known = a_case("c.py::test_b", Outcome.FAILED, quarantined=True)
    series.run(good, other, **took)
    series.run(good, flaky, **took)
    series.report(None, suspectNodes=[BLAMED], durationSeconds=62)
    series.run(good, known, verdict=Verdict.PASSED, reason="AllCasesPassed", **took)
    series.run(good, verdict=Verdict.CANCELLED, reason="Cancelled", durationSeconds=3)
    series.run(broken, other, **took)
    series.run(broken, flaky, speed, **took)
    series.run(broken, a_case("c.py::test_b", Outcome.NOT_RUN), **took)
    status = json.loads(json.dumps(series.ledger))
    for run in status["runs"][-3:]:
        run["report"] = f"{run['name']}-report"
    return {"metadata": {"name": "nightly-2x8", "namespace": NAMESPACE, "creationTimestamp": "x"}, "status": status}


def on(server: Server, folder: Path, *arguments: str) -> int:
    return main(["history", "--kubeconfig", server.kubeconfig(folder), *arguments])


def page(body: dict[str, Any], *, limit: int = 30, wide: bool = False) -> str:
    return "".join(f"{one.plain}\n" for one in series_text.page(ledgers.read_ledger(body), limit=limit, wide=wide))


@pytest.mark.parametrize(("name", "wide"), [("history.txt", False), ("history-wide.txt", True)])
def test_the_nights_of_a_series(name: str, *, wide: bool, updates_golden: bool) -> None:
    made = page(a_ledger(), wide=wide)
    assert "\x1b" not in made
    assert "\u202e" not in made
    golden.check(made, name, updates=updates_golden)


@pytest.mark.parametrize("field", ["failingOmitted", "flippingOmitted", "suspectNodesOmitted"])
def test_entries_that_the_ledger_omits_are_counted(field: str) -> None:
    body = a_ledger()
    assert body["status"][field] == 0, "the operator writes it"
    body["status"][field] = 7
    assert page(body).count("at least 7 more\n") == 1


def test_limit_keeps_the_newest_rows(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers = [(200, a_ledger())]
    assert on(server, tmp_path, "nightly-2x8", "--limit", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:4] if line] == ["night-7", "night-6"]
    assert server.requests[0].path.endswith(f"/namespaces/{NAMESPACE}/disttestseries/nightly-2x8")


def test_letters_of_outcomes_have_their_colours() -> None:
    [row] = [
        one
        for one in series_text.page(ledgers.read_ledger(a_ledger()), limit=30, wide=False)
        if one.plain.startswith("verdicts")
    ]
    styles = {row.plain[span.start : span.end]: span.style for span in row.spans}
    assert styles == {"P": "green", "H": "bold red", "i": "dim", "c": "dim"}


def test_a_ledger_of_anything_is_shown_as_far_as_it_goes() -> None:
    odd: dict[str, Any] = {
        "runs": [{}, 7, {"cases": [], "seconds": "x", "verdict": STEERING, "suites": 3, "stepSeconds": []}]
    }
    odd |= {"failing": [{}, None, {"outcomes": STEERING, "streak": "x"}], "flipping": 3, "suspectNodes": [{}]}
    odd |= {"streak": [], "passRatePercent": {}, "bandwidth": {"points": [{"sizeBytes": 1e300}, 3]}}
    made = page({"metadata": {"name": "s"}, "status": odd}, wide=True)
    assert "\x1b" not in made
    assert made.startswith("TIME")
    assert page({}) == "No run of the series has finished.\n"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_for_programs_it_is_what_the_ledger_says(
    output: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = a_ledger()
    server.answers = [(200, ledger)]
    assert on(server, tmp_path, "nightly-2x8", "-o", output, "--limit", "3") == 0
    made = capsys.readouterr().out
    document = json.loads(made) if output == "json" else yaml.safe_load(made)
    assert [run["name"] for run in document["runs"]] == ["night-5", "night-6", "night-7"]
    assert document["failing"] == ledger["status"]["failing"]
    assert (document["name"], document["namespace"]) == ("nightly-2x8", NAMESPACE)
    assert not document.keys() & {"pending", "totals"}


@pytest.mark.parametrize(
    ("uids", "most", "found"),
    [
        (("u7",), 8, "u6 u5"),
        (("u7", "u6"), 8, "u5"),
        (("u6", "u0"), 8, "u5"),
        (("other",), 2, "u7 u6"),
        (("u7",), 0, ""),
    ],
)
def test_reports_to_learn_from_are_kept_ones_before_the_later_of_two_runs(
    uids: Sequence[str], most: int, found: str
) -> None:
    assert " ".join(night.uid for night in ledgers.earlier_nights(ledgers.read_ledger(a_ledger()), uids, most)) == found


def another(name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}}


def test_without_a_name_it_lists_series(*, updates_golden: bool) -> None:
    bodies = [a_ledger(), another("new", "x")]
    lines = series_text.series_table(bodies, now=NOW, namespaces=True)
    golden.check("".join(f"{one.plain}\n" for one in lines), "history-list.txt", updates=updates_golden)


def test_lists_of_series_in_other_formats(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed: Answer = (200, {"items": [another("z"), a_ledger()]})
    server.answers = [listed, listed, listed]
    assert on(server, tmp_path, "-o", "name") == 0
    names = ["disttestseries.disttest.dev/nightly-2x8", "disttestseries.disttest.dev/z"]
    assert capsys.readouterr().out.splitlines() == names
    assert on(server, tmp_path, "-A", "-o", "json") == 0
    first, second = json.loads(capsys.readouterr().out)["series"]
    assert (first["name"], first["runCount"], second) == ("nightly-2x8", 8, {"name": "z", "namespace": NAMESPACE})
    assert "runs" not in first
    assert server.requests[1].path.split("?")[0] == "/apis/disttest.dev/v1alpha1/disttestseries"
    assert on(server, tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:2] == ["NAME", "RUNS"]


def test_a_name_as_o_name_writes_it_is_understood(server: Server, tmp_path: Path) -> None:
    server.answers = [(200, a_ledger())]
    assert on(server, tmp_path, "disttestseries.disttest.dev/nightly-2x8") == 0


def test_no_series_is_no_error(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers = [(200, {"items": []})]
    assert on(server, tmp_path) == 0
    out, err = capsys.readouterr()
    assert (out, err.partition(".")[0]) == ("", "No series in namespace gpu-ci")


NOT_FOUND: Answer = (404, {"message": "not found", "details": {"name": "nightly"}})
NO_KIND: Answer = (404, {"message": "the server could not find the requested resource"})


@pytest.mark.parametrize(
    ("arguments", "answers", "code", "words"),
    [
        (("nightly",), [NOT_FOUND, (200, {"items": [another("nightly-2x8")]})], 2, "Did you mean 'nightly-2x8'?"),
        (("nightly",), [NOT_FOUND, (200, {"items": [another("b"), another("a")]})], 2, "gpu-ci. Available: a, b"),
        (("nightly",), [NOT_FOUND, (200, {"items": []})], 2, "A series is created when"),
        (
            ("nightly",),
            [NO_KIND],
            2,
            "DistTests are not installed in this cluster. To install them, see docs/operating/installing.md.",
        ),
        ((), [NO_KIND], 2, "DistTests are not installed in this cluster"),
        ((), [(403, {"message": "disttestseries.disttest.dev is forbidden"})], 2, "the ClusterRole disttest-view"),
        (
            ("../pods",),
            [],
            2,
            "'../pods' is not a valid name of a series. To list series, run `disttest history -n gpu-ci`.",
        ),
        (("a", "-A"), [], 2, "-A lists series. Remove -A or SERIES."),
        (("a",), [Broken()], 42, "the response of the API server was lost"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(
    arguments: Sequence[str],
    answers: Sequence[Any],
    code: int,
    words: str,
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.answers = list(answers)
    assert on(server, tmp_path, *arguments) == code
    out, err = capsys.readouterr()
    [line] = err.splitlines()
    assert out == ""
    assert words in line
