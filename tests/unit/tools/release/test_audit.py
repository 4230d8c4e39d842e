"""What was not checked is never called safe, and what was accepted is accepted for a time."""

import dataclasses
import json
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import patience
from tests.support.paths import ROOT
from tools.release import audit
from tools.release.audit import FOUND, NOT_CHECKED, NOTHING_KNOWN, Acceptance, DatabaseAnswer, Vulnerability
from tools.release.installed import Pin

TODAY = date(2026, 11, 22)
BAD = Vulnerability(package="some", version="1.0", names=("PYSEC-1", "CVE-1"), fixed=("1.1",))


def an_acceptance(**changes: Any) -> Acceptance:
    usual = Acceptance(package="some", name="CVE-1", reason="never called", until=TODAY)
    return dataclasses.replace(usual, **changes)


@pytest.mark.parametrize(
    ("answers", "accepted", "code", "words"),
    [
        (
            [DatabaseAnswer(checked=("some 1.0",), unchecked={})],
            [],
            NOTHING_KNOWN,
            "1 checked: no known vulnerabilities",
        ),
        ([], [], NOT_CHECKED, ""),
        ([DatabaseAnswer(unchecked={"some 1.0": "no route"})], [], NOT_CHECKED, "NOT CHECKED: some 1.0 (no route)"),
        (
            [DatabaseAnswer(unchecked={"some 1.0": "no route"}), DatabaseAnswer(checked=("some 1.0",), unchecked={})],
            [],
            NOTHING_KNOWN,
            "1 checked: no known vulnerabilities",
        ),
        (
            [DatabaseAnswer(checked=("other 1.0",), unchecked={"some 1.0": "no route"})],
            [],
            NOT_CHECKED,
            "NOT CHECKED: some 1.0 (no route)",
        ),
        (
            [DatabaseAnswer(checked=("some 1.0",), unchecked={"x 1": "no route"}, findings=(BAD,))],
            [],
            FOUND,
            "VULNERABLE some 1.0: PYSEC-1, CVE-1; fixed in 1.1",
        ),
        (
            [DatabaseAnswer(checked=("some 1.0",), unchecked={}, findings=(BAD,))],
            [an_acceptance()],
            NOTHING_KNOWN,
            "accepted until 2026-11-22: some 1.0: PYSEC-1, CVE-1; fixed in 1.1: never called",
        ),
        (
            [DatabaseAnswer(checked=("some 1.0",), unchecked={}, findings=(BAD,))],
            [an_acceptance(until=date(2026, 11, 21))],
            FOUND,
            "(accepted only until 2026-11-21)",
        ),
        (
            [DatabaseAnswer(checked=("some 1.0",), unchecked={}, findings=(BAD,))],
            [an_acceptance(package="other"), an_acceptance(name="CVE-2")],
            FOUND,
            "VULNERABLE some 1.0",
        ),
    ],
)
def test_the_exit_code_follows_what_was_answered(
    answers: list[DatabaseAnswer], accepted: list[Acceptance], code: int, words: str
) -> None:
    lines, found = audit.summarize(answers, accepted, TODAY)
    assert found == code
    assert words in "\n".join(lines)


def test_pip_audit_that_skips_a_package_has_not_checked_it() -> None:
    """It calls that "no known vulnerabilities found", with exit code 0."""
    report = {
        "dependencies": [
            {
                "name": "some",
                "version": "1.0",
                "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": ["CVE-1"]}],
            },
            {"name": "fine", "version": "2.0", "vulns": []},
            {"name": "gone", "skip_reason": "not found"},
        ]
    }
    asked = ["some 1.0", "fine 2.0", "gone 3.0", "silent 4.0"]
    assert audit.parse_pip_audit(json.dumps(report), asked, "") == DatabaseAnswer(
        checked=("some 1.0", "fine 2.0"),
        unchecked={"gone 3.0": "not found", "silent 4.0": "pip-audit does not report it"},
        findings=(BAD,),
    )


@pytest.mark.parametrize("report", ["", "Traceback", "[]", "{}", "null"])
def test_without_a_report_nothing_was_checked(report: str) -> None:
    assert audit.parse_pip_audit(report, ["some 1.0"], "no route") == DatabaseAnswer(unchecked={"some 1.0": "no route"})


def test_govulncheck_that_failed_has_not_checked_its_module() -> None:
    assert audit.parse_govulncheck("{}", "m", "no route") == DatabaseAnswer(unchecked={"m": "no route"})


def test_a_finding_of_govulncheck_has_its_other_names() -> None:
    trace = [{"module": "golang.org/x/net", "version": "v0.1.0"}]
    finding = {"finding": {"osv": "GO-1", "fixed_version": "v0.2.0", "trace": trace}}
    messages = [{"config": {}}, {"osv": {"id": "GO-1", "aliases": ["CVE-1"]}}, finding, finding]
    assert audit.parse_govulncheck("\n".join(json.dumps(one, indent=1) for one in messages), "m", "") == DatabaseAnswer(
        checked=("m",),
        unchecked={},
        findings=(
            Vulnerability(package="m: golang.org/x/net", version="v0.1.0", names=("GO-1", "CVE-1"), fixed=("v0.2.0",)),
        ),
    )


def test_an_accepted_finding_has_a_reason_and_an_end_date() -> None:
    text = audit.ACCEPTED.read_text()
    example = "\n".join(line.removeprefix("# ") for line in text.splitlines() if "[[" in line or " = " in line)
    assert audit.accepted_risks(tomllib.loads(example))[0].until == date(2026, 12, 31)
    assert all(one.reason for one in audit.accepted_risks(tomllib.loads(text)))


class Database(BaseHTTPRequestHandler):
    """Responds like OSV, with one vulnerable package."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        affected = [{"package": asked["package"], "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "9.0"}]}]}]
        known = {"vulns": [{"id": "CVE-9", "affected": affected}]} if asked["package"]["name"] == "click" else {}
        body = json.dumps(known).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:  # type: ignore[explicit-override]
        pass


@pytest.fixture
def database() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Database)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query"
    server.shutdown()
    thread.join()
    server.server_close()


def a_pin(name: str, version: str) -> Pin:
    return Pin(name=name, version=version, marker="", hashes=("sha256:" + 64 * "0",))


def test_two_versions_of_a_package_are_both_checked(database: str) -> None:
    wanted = [a_pin("numpy", "1.0"), a_pin("numpy", "2.0"), a_pin("click", "8.0")]
    answers = list(audit._audit_python(wanted, database))
    assert sorted(key for one in answers for key in one.checked) == ["click 8.0", "numpy 1.0", "numpy 2.0"]
    assert [one for answer in answers for one in answer.findings] == [
        Vulnerability(package="click", version="8.0", names=("CVE-9",), fixed=("9.0",))
    ]


def test_a_database_that_does_not_answer_has_checked_nothing() -> None:
    (answer,) = audit._audit_python([a_pin("click", "8.0")], "http://127.0.0.1:9/v1/query")
    assert answer.checked == ()
    assert "click 8.0" in answer.unchecked


def test_the_scanner_reads_what_is_compiled(tmp_path: Path) -> None:
    """A real one, if it is built, with a database of one made up entry."""
    built = sorted(audit.SCANNER.home.glob("*/govulncheck"))
    if not built or not shutil.which("go"):
        pytest.skip("govulncheck is not built: `make audit` does it")
    for name, content in {
        "index/db.json": {"modified": SINCE},
        "index/modules.json": [
            {"path": "golang.org/x/net", "vulns": [{"id": "GO-1", "modified": "2026-01-01T00:00:00Z"}]}
        ],
        "ID/GO-1.json": {"id": "GO-1", "modified": "2026-01-01T00:00:00Z", "affected": [AFFECTED]},
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    folder = ROOT / "devcluster/kubedev"
    command = [str(built[-1]), "-C", str(folder), "-db", tmp_path.as_uri(), "-scan", "package", "-format", "json", "."]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience.stretched(120), check=True)
    found = audit.parse_govulncheck(done.stdout, "kubedev", "").findings
    assert {one.package for one in found} == {"kubedev: golang.org/x/net"}


SINCE = "2026-01-01T00:00:00Z"
AFFECTED = {
    "package": {"name": "golang.org/x/net", "ecosystem": "Go"},
    "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
    "ecosystem_specific": {},
}
