"""`disttest compare`: what it prints, what it takes, what it asks the API server for, and how it ends."""

import base64
import dataclasses
import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from disttest_cli.compare import renderers
from disttest_cli.compare.differences import compare
from disttest_cli.main import main
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from tests.support.builders.compared import a_case, a_night
from tests.support.fakes.canned import NAMESPACE, Broken, Server

Answer = tuple[int, Any]
GOOD, BAD = (
    a_night(number, {"mine": [a_case("x", one)]}) for number, one in enumerate((Outcome.PASSED, Outcome.FAILED))
)
MISSING: Answer = (404, {"message": "not found", "details": {"name": "night-0"}})


NO_REPORT: Answer = (404, {"message": "not found", "details": {"name": "night-0-report"}})


def ended(*arguments: str) -> int:
    return main(["compare", *arguments])


def on(server: Server, folder: Path, *arguments: str) -> int:
    return ended(*arguments, "--kubeconfig", server.kubeconfig(folder))


def written(folder: Path, *reports: Report) -> list[str]:
    paths = [folder / f"{number}.json" for number, _ in enumerate(reports)]
    for path, report in zip(paths, reports, strict=True):
        path.write_bytes(report.dumps())
    return list(map(str, paths))


def stored(report: Report) -> list[Answer]:
    """The answers of the API server to a search for the report of a run."""
    raw = report.dumps()
    sha256 = hashlib.sha256(raw).hexdigest()
    map_name = f"{report.name}-report"
    status = {"verdict": report.verdict.value, "report": {"configMap": map_name, "sha256": sha256}}
    data = {"report.json.gz": base64.b64encode(gzip.compress(raw)).decode()}
    return [
        (200, {"metadata": {"name": report.name, "uid": report.uid}, "status": status}),
        (200, {"metadata": {"name": map_name}, "binaryData": data}),
    ]


def a_series(*runs: Report, name: str = "nightly-2x8") -> Answer:
    entries = [
        {
            "name": run.name,
            "uid": run.uid,
            "time": f"2026-11-{21 + place}T02:10:00Z",
            "verdict": run.verdict.value,
            "reason": run.reason.value,
            "report": f"{run.name}-report",
        }
        for place, run in enumerate(runs)
    ]
    return 200, {"metadata": {"name": name, "namespace": NAMESPACE}, "status": {"runs": entries}}


def error(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    [line] = err.splitlines()
    assert out == ""
    return line


class TestFiles:
    @pytest.mark.parametrize(
        ("pair", "options", "code"),
        [
            ((GOOD, GOOD), (), 0),
            ((GOOD, BAD), (), 10),
            ((GOOD, BAD), ("--exit-zero",), 0),
            ((BAD, BAD), (), 0),
            ((BAD, GOOD), (), 0),
        ],
    )
    def test_need_no_cluster_and_the_exit_code_says_whether_anything_got_worse(
        self, pair: Sequence[Report], options: Sequence[str], code: int, tmp_path: Path
    ) -> None:
        assert ended(*written(tmp_path, *pair), *options, "--kubeconfig", "/missing") == code

    @pytest.mark.parametrize("output", ["json", "markdown"])
    def test_in_other_formats(self, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert ended(*written(tmp_path, GOOD, BAD), "-o", output) == 10
        made = capsys.readouterr().out
        comparison = compare(GOOD, BAD)
        assert (
            made == renderers.markdown(comparison)
            if output == "markdown"
            else json.loads(made)["worse"] == list(comparison.worse)
        )

    def test_a_file_that_is_none(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert ended(str(tmp_path / "none"), "b.json") == 2
        assert error(capsys) == f"disttest: {tmp_path / 'none'} cannot be read: No such file or directory"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((), "compare needs two arguments, or only --series. Give two"),
            (("a",), "compare needs two arguments"),
            (("a", "b", "c"), "compare needs two arguments"),
            (("a", "b", "--series", "s"), "compare needs two arguments"),
            (("-", "-"), "standard input contains one report"),
        ],
    )
    def test_what_is_no_pair_is_refused(
        self, arguments: Sequence[str], words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert ended(*arguments) == 2
        assert words in error(capsys)


class TestOnACluster:
    def test_runs_are_found_by_name(self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        server.answers = [*stored(GOOD), *stored(BAD)]
        assert on(server, tmp_path, "disttest.disttest.dev/night-0", "night-1", "-n", "x") == 10
        assert [urlsplit(one.path).path.partition("namespaces/")[2] for one in server.requests] == [
            "x/disttests/night-0",
            "x/configmaps/night-0-report",
            "x/disttests/night-1",
            "x/configmaps/night-1-report",
        ]
        assert capsys.readouterr().out.splitlines()[-1] == "worse: TestsFailed after Passed, 1 case newly failing"

    @pytest.mark.parametrize(
        ("position", "run"),
        [("0", 3), ("-1", 2), ("-3", 0), ("passed", 2), ("2026-11-22", 1), ("-0", 3)],
    )
    def test_nights_are_found_by_their_place_verdict_or_day(
        self, position: str, run: int, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        made = [
            a_night(number, {"mine": [a_case("x", one)]})
            for number, one in enumerate([Outcome.PASSED, Outcome.FAILED] * 2)
        ]
        server.answers = [a_series(*made), *stored(made[run])]
        assert (
            on(server, tmp_path, f"nightly-2x8@{position}", *written(tmp_path, GOOD), "--exit-zero", "-o", "json") == 0
        )
        assert json.loads(capsys.readouterr().out)["a"]["uid"] == f"u{run}"

    def test_a_series_is_held_against_the_last_night_that_passed(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        worst = a_night(2, {"mine": [a_case("x", Outcome.FAILED)]})
        server.answers = [a_series(GOOD, BAD, worst), *stored(GOOD), *stored(worst)]
        assert on(server, tmp_path, "--series", "nightly-2x8", "--against", "0", "-o", "json") == 10
        document = json.loads(capsys.readouterr().out)
        assert (document["a"]["name"], document["b"]["name"]) == ("night-0", "night-2")

    def test_runs_without_a_series_are_compared_by_the_one_that_they_share(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first, last = (dataclasses.replace(one, series="") for one in (GOOD, a_night(2, {"mine": [a_case("x")]})))
        shared = a_series(first, last, name="adhoc")
        server.answers = [shared, *stored(first), *stored(last), shared]
        assert on(server, tmp_path, "--series", "adhoc") == 0
        assert "night-0" in capsys.readouterr().out

    def test_more_reports_of_the_series_are_read_and_a_missing_one_is_reported(
        self, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        third = a_night(2, {"mine": [a_case("x")]})
        series = a_series(GOOD, BAD, third)
        gone = [MISSING, (200, {"items": []}), NO_REPORT]
        server.answers = [series, *stored(BAD), *stored(third), series, *gone]
        assert on(server, tmp_path, "nightly-2x8@-1", "night-2", "--against", "8") == 0
        assert capsys.readouterr().err.startswith("disttest: omitted: DistTest 'night-0' does not exist")

    @pytest.mark.parametrize(
        ("arguments", "answers", "code", "words"),
        [
            (("night-0", "b.json"), [MISSING, (200, {"items": []}), NO_REPORT], 2, "DistTest 'night-0' does not exist"),
            (
                ("Night_0", "b.json"),
                [],
                2,
                "'Night_0' is not a run, a run of a series or a file. Write a name from `disttest list",
            ),
            (
                ("s@1", "b.json"),
                [],
                2,
                "'s@1' is not a run of a series. Write SERIES@POSITION, where POSITION is 0 (newest run",
            ),
            (("@0", "b.json"), [], 2, "'@0' is not a run of a series"),
            (("S/@0", "b.json"), [], 2, "S/@0 cannot be read"),
            (
                ("nightly-2x8@-2", "b.json"),
                [a_series(GOOD, BAD)],
                2,
                "has no run '-2' with a report. Available: 2026-11-22 TestsFailed, 2026-11-21 Passed",
            ),
            (("nightly-2x8@0", "b.json"), [a_series()], 2, "series 'nightly-2x8' has no finished run yet"),
            (("--series", "nightly-2x8"), [a_series(GOOD)], 2, "has only one run with a report"),
            (
                ("--series", "nightly"),
                [
                    (404, {"message": "", "details": {"name": "nightly"}}),
                    (200, {"items": [{"metadata": {"name": "nightly-2x8"}}]}),
                ],
                2,
                "series 'nightly' does not exist in namespace gpu-ci. Did you mean 'nightly-2x8'?",
            ),
            (
                ("--series", "s"),
                [(403, {"message": "disttestseries.disttest.dev is forbidden"})],
                2,
                "Ask an administrator for the ClusterRole disttest-view",
            ),
            (
                ("--series", "s"),
                [(404, {"message": "the server could not find the requested resource"})],
                2,
                "docs/operating/installing.md",
            ),
            (("night-0", "night-1"), [Broken()], 42, "the response of the API server was lost"),
            (
                ("nightly-2x8@0", "b.json"),
                [a_series(GOOD), *stored(a_night(7, {}, name="night-0"))],
                2,
                "a later run has the same name",
            ),
        ],
    )
    def test_what_cannot_be_had_is_said_in_one_line(
        self,
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
        assert words in error(capsys)
