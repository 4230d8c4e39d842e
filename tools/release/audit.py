"""Asks databases about known vulnerabilities of what is pinned."""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from devcluster.machine import cache
from devcluster.machine.settings import DevClusterError
from devcluster.programs import gobuild
from tools.release import installed
from tools.release.commit import ROOT
from tools.release.installed import Pin

NOTHING_KNOWN, FOUND, NOT_CHECKED = 0, 1, 3  # exit codes; 2 is that of wrong arguments
NOT_SPACE = re.compile(r"\S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vulnerability:
    """`names` are the identifiers of one vulnerability in several databases."""

    package: str
    version: str
    names: tuple[str, ...]
    fixed: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        fix = f"fixed in {', '.join(self.fixed)}" if self.fixed else "no version fixes it"
        return f"{self.package} {self.version}: {', '.join(self.names)}; {fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAnswer:
    """The answer of one database: what was checked, what was not and why, what was found."""

    checked: tuple[str, ...] = ()
    unchecked: Mapping[str, str]
    findings: tuple[Vulnerability, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A finding without a fix: why it does no harm here, and until when that is accepted."""

    package: str
    name: str
    reason: str
    until: date


def parse_pip_audit(report: str, asked: Sequence[str], problem: str) -> DatabaseAnswer:
    """Parse pip-audit's JSON; without valid JSON everything in `asked` is unchecked, because of `problem`."""
    try:
        found: Sequence[Mapping[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return DatabaseAnswer(unchecked=dict.fromkeys(asked, problem or "pip-audit gave no answer"))
    keys = {f"{one['name']} {one['version']}" for one in found if "vulns" in one}
    skipped = {one["name"]: str(one["skip_reason"]) for one in found if "skip_reason" in one}
    return DatabaseAnswer(
        checked=tuple(key for key in asked if key in keys),
        unchecked={
            key: skipped.get(key.split()[0], "pip-audit does not report it") for key in asked if key not in keys
        },
        findings=tuple(
            Vulnerability(
                package=package["name"],
                version=package["version"],
                names=tuple(dict.fromkeys((one["id"], *one.get("aliases", ())))),
                fixed=tuple(one.get("fix_versions", ())),
            )
            for package in found
            for one in package.get("vulns", ())
        ),
    )


def parse_govulncheck(stream: str, module: str, problem: str) -> DatabaseAnswer:
    """Parse govulncheck's stream of JSON messages; with a `problem` the module is unchecked."""
    if problem:
        return DatabaseAnswer(unchecked={module: problem})
    messages = list(_messages(stream))
    names = {one["osv"]["id"]: tuple(one["osv"].get("aliases", ())) for one in messages if "osv" in one}
    found = dict.fromkeys(
        Vulnerability(
            package=f"{module}: {finding['trace'][0]['module']}",
            version=finding["trace"][0].get("version", ""),
            names=(finding["osv"], *names.get(finding["osv"], ())),
            fixed=tuple(filter(None, [finding.get("fixed_version", "")])),
        )
        for finding in (one["finding"] for one in messages if "finding" in one)
    )
    return DatabaseAnswer(checked=(module,), unchecked={}, findings=tuple(found))


def _messages(stream: str) -> Iterator[Mapping[str, Any]]:
    decoder, place = json.JSONDecoder(), 0
    while found := NOT_SPACE.search(stream, place):
        message, place = decoder.raw_decode(stream, found.start())
        yield message


def accepted_risks(data: Mapping[str, Any]) -> tuple[Acceptance, ...]:
    return tuple(Acceptance(**one) for one in data.get("accepted", ()))


def summarize(answers: Iterable[DatabaseAnswer], accepted: Sequence[Acceptance], today: date) -> tuple[list[str], int]:
    """The lines to print and the exit code. What was not checked is never called safe."""
    answers = tuple(answers)
    checked = {key for answer in answers for key in answer.checked}
    unchecked = {key: why for answer in answers for key, why in answer.unchecked.items() if key not in checked}
    findings = tuple(dict.fromkeys(one for answer in answers for one in answer.findings))
    lines, open_ones = [], 0
    for finding in findings:
        known = (one for one in accepted if one.package == finding.package and one.name in finding.names)
        match = next(known, None)
        if match and match.until >= today:
            lines.append(f"accepted until {match.until}: {finding.words}: {match.reason}")
            continue
        open_ones += 1
        lines.append(f"VULNERABLE {finding.words}" + (f" (accepted only until {match.until})" if match else ""))
    if checked:
        count = f"{open_ones} known vulnerabilities" if open_ones else "no known vulnerabilities that were not accepted"
        lines.append(f"{len(checked)} checked: {count}")
    if unchecked:
        lines.append(f"NOT CHECKED: {_reasons(unchecked)}. Their vulnerabilities are unknown")
    code = FOUND if open_ones else NOT_CHECKED if unchecked or not checked else NOTHING_KNOWN
    return lines, code


def _reasons(unchecked: Mapping[str, str]) -> str:
    """Packages by reason."""
    groups: dict[str, list[str]] = {}
    for key, why in unchecked.items():
        groups.setdefault(why.replace(key.split()[0], "…"), []).append(key)
    return "; ".join(f"{_some(keys)} ({why})" for why, keys in groups.items())


def _some(keys: Sequence[str]) -> str:
    return ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


ACCEPTED = ROOT / "tools/release/accepted.toml"
SCANNER = gobuild.GoProgram(
    title="govulncheck",
    source=ROOT / "tools/release/govulncheck",
    inputs=("go.mod", "go.sum"),
    linker="-s -w",
    package="golang.org/x/vuln/cmd/govulncheck",
    home=cache.root() / "govulncheck",
    name="govulncheck",
    minutes=1,
)
SHOWN = 120  # characters of an error: its cause stands at its end
# Programs by the Go module that pins their packages.
PROGRAMS = {"devcluster/kubedev": ".", "tests/support/clusters/kueue_module": "sigs.k8s.io/kueue/cmd/kueue"}


def audit(say: gobuild.Say, osv_url: str = "") -> int:
    """Query the databases and return the exit code. Each gets what the one before did not know."""
    answers = [
        *_audit_python(_pinned(), osv_url),
        *(_audit_go(module, program, say) for module, program in PROGRAMS.items()),
    ]
    accepted = accepted_risks(tomllib.loads(ACCEPTED.read_text()))
    lines, code = summarize(answers, accepted, datetime.now(tz=UTC).date())
    for line in lines:
        say(line)
    return code


def _pinned() -> list[Pin]:
    """All pins, without markers, and the installer."""
    found = (*installed.pinned(), *installed.read_pins((ROOT / "installer.txt").read_text(), "installer.txt"))
    return list({pin.key: pin for pin in found}.values())


def _audit_python(wanted: Sequence[Pin], osv_url: str) -> Iterator[DatabaseAnswer]:
    """Query PyPI's own database, then OSV's; only `osv_url` if it is given."""
    services = [("-s", "osv", "--osv-url", osv_url)] if osv_url else [("-s", "pypi"), ("-s", "osv")]
    for service in services:
        unknown: list[Pin] = []
        # All pins are on the index: a database without one of them cannot be asked at all.
        if why := _run_pip_audit(wanted[:1], service).unchecked.get(wanted[0].key):
            yield DatabaseAnswer(unchecked={pin.key: why for pin in wanted})
            continue
        for part in _without_duplicates(wanted):
            answer = _run_pip_audit(part, service)
            unknown += [pin for pin in part if pin.key in answer.unchecked]
            yield answer
        if not (wanted := unknown):
            return


def _without_duplicates(wanted: Sequence[Pin]) -> Iterator[list[Pin]]:
    """Split the pins into lists without two versions of a package."""
    rest = list(wanted)
    while rest:
        first = list({pin.name: pin for pin in reversed(rest)}.values())
        yield first
        rest = [pin for pin in rest if pin not in first]


def _run_pip_audit(wanted: Sequence[Pin], service: Sequence[str]) -> DatabaseAnswer:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "requirements.txt")
        listed.write_text("".join(pin.exactly for pin in wanted))
        command = [sys.executable, "-m", "pip_audit", "-r", str(listed), "--disable-pip", "--require-hashes"]
        command += ["-f", "json", "--progress-spinner", "off", *service]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return parse_pip_audit(done.stdout, [pin.key for pin in wanted], _last(done.stderr))


def _audit_go(module: str, program: str, say: gobuild.Say) -> DatabaseAnswer:
    """Scan by packages, not by calls: everything that is compiled into the program counts."""
    try:
        scanner = gobuild.build(SCANNER, say)
    except DevClusterError as error:
        return DatabaseAnswer(unchecked={module: _last(str(error))})
    command = [str(scanner), "-C", str(ROOT / module), "-scan", "package", "-format", "json", program]
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return parse_govulncheck(done.stdout, module, _last(done.stderr) if done.returncode else "")


def _last(text: str) -> str:
    """The last line of an error output."""
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return line if len(line) <= SHOWN else f"… {line[-SHOWN:]}"
