"""Asks databases about known vulnerabilities of what is pinned."""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from devcluster import cache, gobuild
from devcluster.errors import ClusterError
from release import installed, pins, vulnerabilities
from release.commit import ROOT
from release.pins import Pin
from release.vulnerabilities import Answer

ACCEPTED = ROOT / "release" / "accepted.toml"
SCANNER = gobuild.GoProgram(
    title="govulncheck",
    source=ROOT / "release" / "govulncheck",
    inputs=("go.mod", "go.sum"),
    linker="-s -w",
    package="golang.org/x/vuln/cmd/govulncheck",
    home=cache.root() / "govulncheck",
    name="govulncheck",
    minutes=1,
)
SHOWN = 120  # characters of an error: its cause stands at its end
# What is compiled, by the module that pins it.
PROGRAMS = {"devcluster/kubedev": ".", "tests/support/kueue_module": "sigs.k8s.io/kueue/cmd/kueue"}


def audit(say: gobuild.Say, osv_url: str = "") -> int:
    """The exit code. Each database is asked about what the one before did not know."""
    answers = [*_python(_pinned(), osv_url), *(_go(module, program, say) for module, program in PROGRAMS.items())]
    accepted = vulnerabilities.accepted(tomllib.loads(ACCEPTED.read_text()))
    lines, code = vulnerabilities.judged(answers, accepted, datetime.now(tz=UTC).date())
    for line in lines:
        say(line)
    return code


def _pinned() -> list[Pin]:
    """For whatever machine, and the installer."""
    found = (*installed.pinned(), *pins.read((ROOT / "installer.txt").read_text(), "installer.txt"))
    return list({pin.key: pin for pin in found}.values())


def _python(wanted: Sequence[Pin], osv_url: str) -> Iterator[Answer]:
    """PyPI's own database, then OSV's, or only the one that is named."""
    services = [("-s", "osv", "--osv-url", osv_url)] if osv_url else [("-s", "pypi"), ("-s", "osv")]
    for service in services:
        unknown: list[Pin] = []
        # All pins are of the index: one that a database has not heard of means that there is none to ask.
        if why := _asked(wanted[:1], service).unchecked.get(wanted[0].key):
            yield Answer(unchecked={pin.key: why for pin in wanted})
            continue
        for part in _alone(wanted):
            answer = _asked(part, service)
            unknown += [pin for pin in part if pin.key in answer.unchecked]
            yield answer
        if not (wanted := unknown):
            return


def _alone(wanted: Sequence[Pin]) -> Iterator[list[Pin]]:
    """No list has two versions of a package."""
    rest = list(wanted)
    while rest:
        first = list({pin.name: pin for pin in reversed(rest)}.values())
        yield first
        rest = [pin for pin in rest if pin not in first]


def _asked(wanted: Sequence[Pin], service: Sequence[str]) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "requirements.txt")
        listed.write_text("".join(pin.exactly for pin in wanted))
        command = [sys.executable, "-m", "pip_audit", "-r", str(listed), "--disable-pip", "--require-hashes"]
        command += ["-f", "json", "--progress-spinner", "off", *service]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return vulnerabilities.of_python(done.stdout, [pin.key for pin in wanted], _last(done.stderr))


def _go(module: str, program: str, say: gobuild.Say) -> Answer:
    """By packages, not by calls: whatever is compiled into the program counts."""
    try:
        scanner = gobuild.build(SCANNER, say)
    except ClusterError as error:
        return Answer(unchecked={module: _last(str(error))})
    command = [str(scanner), "-C", str(ROOT / module), "-scan", "package", "-format", "json", program]
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return vulnerabilities.of_go(done.stdout, module, _last(done.stderr) if done.returncode else "")


def _last(text: str) -> str:
    """The end of what a program said when it gave up."""
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return line if len(line) <= SHOWN else f"… {line[-SHOWN:]}"
