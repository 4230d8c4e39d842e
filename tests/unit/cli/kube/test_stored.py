"""Where reports are kept, against canned answers: what is found, and what is said where nothing is."""

import base64
import gzip
import hashlib
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from disttest_cli.errors import CommandError, ExitStatus, UsageError
from disttest_cli.kube import stored
from disttest_cli.kube.client import KubeClient
from disttest_contract import limits
from disttest_contract.results.report import Report
from tests.support.fakes.canned import NAMESPACE, Broken, Server
from tests.support.reports.reports import STATUS, a_good_night, a_night

REPORT = Report.loads(a_night().dumps())  # seconds are rounded on the way
RAW = REPORT.dumps()
NAME = REPORT.name
SHA256 = hashlib.sha256(RAW).hexdigest()
RUN_PATH = f"/apis/disttest.dev/v1alpha1/namespaces/{NAMESPACE}/disttests/{NAME}"
FINISHED = {
    **STATUS,
    "attempt": 2,
    "verdict": "Hung",
    "reason": "CasesHung",
    "message": "a case\nhung",
    "report": {"configMap": f"{NAME}-report", "sha256": SHA256},
}
NO_RUN = (404, {"message": "not found", "details": {"name": NAME, "kind": "disttests"}})


def a_run(**status: Any) -> tuple[int, Any]:
    return (200, {"metadata": {"name": NAME, "uid": REPORT.uid}, "status": status})


def a_config_map(raw: bytes = RAW, sha256: str = SHA256, **changes: Any) -> tuple[int, Any]:
    data = {"report.json.gz": base64.b64encode(gzip.compress(raw)).decode()}
    annotations = {"disttest.dev/report-sha256": sha256}
    return (200, {"metadata": {"annotations": annotations}, "binaryData": data} | changes)


def missing(name: str) -> tuple[int, Any]:
    return (404, {"message": "not found", "details": {"name": name, "kind": "configmaps"}})


def series(*runs: dict[str, Any]) -> tuple[int, Any]:
    return (200, {"items": [{"status": {"runs": [{"name": "other", "time": "2027"}]}}, {"status": {"runs": [*runs]}}]})


def asked(server: Server) -> list[str]:
    return [request.path.rpartition("/")[2] for request in server.requests]


class TestOnACluster:
    def test_the_report_of_a_run_comes_with_its_status(self, api: KubeClient, server: Server) -> None:
        server.answers = [a_run(**FINISHED), a_config_map()]
        subject = stored.find(api, NAMESPACE, NAME)
        assert subject.report == REPORT
        assert subject.steps["queued"] == 41.2
        assert server.requests[0].path == RUN_PATH
        assert asked(server) == [NAME, f"{NAME}-report"]

    def test_of_an_earlier_attempt_its_partial_report_is_taken(self, api: KubeClient, server: Server) -> None:
        status = FINISHED | {"attempts": [{"number": 1, "report": f"{NAME}-report-a1"}]}
        server.answers = [a_run(**status), a_config_map()]
        assert stored.find(api, NAMESPACE, NAME, attempt=1).status == {}, "the steps are those of the last attempt"
        assert asked(server) == [NAME, f"{NAME}-report-a1"]

    def test_the_last_attempt_is_the_run(self, api: KubeClient, server: Server) -> None:
        server.answers = [a_run(**FINISHED), a_config_map()]
        assert stored.find(api, NAMESPACE, NAME, attempt=2).report == REPORT

    def test_of_a_run_that_is_gone_the_newest_entry_of_its_series_counts(self, api: KubeClient, server: Server) -> None:
        server.answers = [
            NO_RUN,
            series(
                {"name": NAME, "time": "2026-03-02", "report": "again", "reportSha256": SHA256, "uid": REPORT.uid},
                {"name": NAME, "time": "2026-03-01", "report": "first", "reportSha256": "", "uid": "x"},
            ),
            a_config_map(),
        ]
        assert stored.find(api, NAMESPACE, NAME).report == REPORT
        assert asked(server) == [NAME, "disttestseries?limit=500", "again"]

    def test_of_a_run_that_no_series_knows_the_usual_name_is_tried(self, api: KubeClient, server: Server) -> None:
        server.answers = [NO_RUN, series(), a_config_map()]
        assert stored.find(api, NAMESPACE, NAME).report == REPORT
        assert asked(server)[-1] == f"{NAME}-report"

    @pytest.mark.parametrize(
        ("answers", "attempt", "words"),
        [
            ([NO_RUN, series(), missing(f"{NAME}-report")], 0, "Check `disttest list -n gpu-ci`"),
            ([NO_RUN, series({"name": NAME, "report": "kept"}), missing("kept")], 0, "no report of it is retained"),
            ([NO_RUN, series({"name": NAME, "verdict": "Hung"})], 0, "its report is not retained: Hung"),
            ([NO_RUN, series({"name": NAME, "report": "kept"})], 1, "Remove --attempt"),
            ([NO_RUN, series()], 1, "does not exist"),
            ([a_run()], 0, "it has not finished (no operator has processed it)"),
            ([a_run(phase="Running")], 0, "it has not finished (Running). To wait for it, run `kubectl wait -n gpu-ci"),
            (
                [a_run(phase="Queued", attempts=[{"number": 1, "report": "r"}])],
                0,
                "; for a partial report, use --attempt 1",
            ),
            (
                [a_run(verdict="InfraFailed", reason="GangLost", message="an agent\nleft\x1b[31m")],
                0,
                "ended without a report: InfraFailed (GangLost): an agent left\\x1b[31m. Run `disttest describe",
            ),
            ([a_run(**FINISHED)], 7, "has no attempt 7. Available: 1, 2"),
            ([a_run()], 1, "has no attempt 1. It has not started."),
            ([a_run(**FINISHED)], 1, "attempt 1 of DistTest 'nightly-2x8-7d4kq' has no report: InfraFailed (NodeUnh"),
            ([a_run(**FINISHED), missing(f"{NAME}-report")], 0, "To show the first failures, run"),
            ([a_run(**FINISHED), a_config_map(binaryData={})], 0, "its binaryData has no report.json.gz"),
            ([a_run(**FINISHED), a_config_map(binaryData={"report.json.gz": "=?"})], 0, "It may have been changed"),
            ([a_run(**FINISHED), a_config_map(binaryData={"report.json.gz": None})], 0, "It may have been changed"),
            (
                [a_run(**FINISHED), a_config_map(binaryData={"report.json.gz": "H4sIAAAA"})],
                0,
                "the gzip data is incompl",
            ),
            ([a_run(**FINISHED), a_config_map(a_good_night().dumps())], 0, f"its SHA-256 is not {SHA256}"),
            (
                [
                    a_run(**FINISHED | {"report": {"configMap": "r"}}),
                    a_config_map(b"{}", hashlib.sha256(b"{}").hexdigest()),
                ],
                0,
                "the report cannot be read: KeyError: 'schema'",
            ),
            ([(403, {"message": "disttests is forbidden"})], 0, "Ask an administrator for the ClusterRole"),
            ([a_run(**FINISHED), (403, {"message": "configmaps is forbidden"})], 0, "configmaps is forbidden"),
        ],
    )
    def test_why_there_is_none_is_said_in_one_line(
        self, answers: list[Any], attempt: int, words: str, api: KubeClient, server: Server
    ) -> None:
        server.answers = answers
        with pytest.raises(UsageError) as caught:
            stored.find(api, NAMESPACE, NAME, attempt=attempt)
        assert words in str(caught.value)
        assert caught.value.code == ExitStatus.USAGE
        assert str(caught.value).isprintable(), "one line, and nothing that steers a terminal"
        assert server.answers == []

    def test_a_report_of_another_run_is_refused(self, api: KubeClient, server: Server) -> None:
        other = a_night(uid="another").dumps()
        sha256 = hashlib.sha256(other).hexdigest()
        server.answers = [a_run(**FINISHED | {"report": {"configMap": "r"}}), a_config_map(other, sha256)]
        with pytest.raises(UsageError, match="it belongs to another run"):
            stored.find(api, NAMESPACE, NAME)

    def test_a_server_that_is_silent_has_the_code_that_says_try_again(self, api: KubeClient, server: Server) -> None:
        server.answers = [Broken()]
        with pytest.raises(CommandError) as caught:
            stored.find(api, NAMESPACE, NAME)
        assert caught.value.code == ExitStatus.UNREACHABLE


class TestInAFile:
    @pytest.mark.parametrize("raw", [RAW, gzip.compress(RAW)], ids=["plain", "gzipped"])
    def test_a_report_is_read_plain_or_gzipped(self, raw: bytes, tmp_path: Path) -> None:
        path = tmp_path / "report"
        path.write_bytes(raw)
        assert stored.read_file(str(path)) == REPORT

    def test_a_dash_is_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(RAW)))
        assert stored.read_file("-") == REPORT

    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            (b"", "is not a report: the report cannot be read: JSONDecodeError"),
            (b"[]", "is not a report: the report cannot be read: TypeError"),
            (b'{"schema": "\\u001b[2J' + b"x" * 10_000 + b'"}', "the report has schema '\\x1b[2J"),
            (b'{"schema": 1}', "the report has schema 1, but this version of DistTest reads 2. Use a report.json"),
            (gzip.compress(RAW)[:-20], "is not a report: the gzip data is incomplete"),
            (b"\x1f\x8bnonsense", "is not a report: Error -3"),
        ],
        ids=["empty", "list", "hostile", "newer", "cut", "no gzip"],
    )
    def test_what_is_no_report_is_refused_in_one_line(self, raw: bytes, words: str, tmp_path: Path) -> None:
        path = tmp_path / "report.json"
        path.write_bytes(raw)
        with pytest.raises(UsageError) as caught:
            stored.read_file(str(path))
        assert words in str(caught.value)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1000 + len(str(path))

    def test_a_small_file_that_unpacks_to_a_large_one_is_not_unpacked(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.gz"
        path.write_bytes(gzip.compress(b" " * (limits.REPORT_BYTES + 1), compresslevel=1))
        with pytest.raises(UsageError, match=f"more than {limits.REPORT_BYTES}"):
            stored.read_file(str(path))

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"no\.json cannot be read: No such file or directory"):
            stored.read_file(str(tmp_path / "no.json"))
        with pytest.raises(UsageError, match="cannot be read: Is a directory"):
            stored.read_file(os.fspath(tmp_path))
