"""The commands of a user that the demos run on one cluster: install, run, show."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from devcluster.machine import processes
from devcluster.machine.settings import DevClusterError
from disttest_cli.input import applying
from disttest_contract.outcomes import ExitCode

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "disttest-system"
KUBECTL_SECONDS = 120
OPERATOR_SECONDS = 180
SHOW_SECONDS = 120  # for a command that prints what is there
SLACK_SECONDS = 60  # for `disttest apply --wait` to give up first
LOG_LINES = 20


class DemoError(DevClusterError):
    """What did not happen and where to look, in one sentence."""


class Session:
    """Commands of a user, kubectl and disttest, for one cluster."""

    def __init__(
        self, program: Sequence[str], environment: Mapping[str, str], results: Path, *, namespace: str = "default"
    ) -> None:
        self.program = program
        self.environment = environment
        self.results = results
        self.namespace = namespace
        self.command_line: Sequence[str] = (sys.executable, "-m", "disttest_cli.main")

    def kubectl(self, *arguments: str, seconds: float = KUBECTL_SECONDS) -> str:
        """Run kubectl as the administrator; a failure is a DevClusterError with its message."""
        title = f"kubectl {' '.join(arguments)}"
        return processes.output(*self.program, *arguments, title=title, environment=self.environment, seconds=seconds)

    def install(self) -> None:
        """Install the operator from the manifests, in a pod with its own permissions."""
        raise NotImplementedError

    def wait_for_operator(self) -> None:
        self.kubectl("wait", "--for=condition=Established", "crd/disttests.disttest.dev", "--timeout=30s")
        try:
            limit = f"--timeout={OPERATOR_SECONDS}s"
            rollout = ("rollout", "status", "deployment/disttest-operator", limit)
            self.kubectl("-n", SYSTEM, *rollout, seconds=OPERATOR_SECONDS + 30)
        except DevClusterError as error:
            pods = self.kubectl("-n", SYSTEM, "describe", "pods")
            raise DemoError(f"the operator did not become ready: {error}\n{pods[-3000:]}") from error

    def disttest(self, *arguments: str, seconds: float = SHOW_SECONDS, waits_for: str = "its answer") -> int:
        """Run a command of the command line as a user would; returns its exit code."""
        say(f"$ disttest {' '.join(arguments)}")
        command = [*self.command_line, *arguments]
        try:
            return subprocess.run(command, env=self.environment, cwd=ROOT, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired as error:
            raise DemoError(
                f"disttest {arguments[0]} has not ended after {seconds:.0f} s; it waited for {waits_for}"
            ) from error

    def run(self, file: Path) -> int:
        """Apply a DistTest and wait for its verdict; returns the exit code."""
        spec = yaml.safe_load(file.read_text())["spec"]
        seconds = applying.budget_seconds(spec) + SLACK_SECONDS
        arguments = ("apply", "-f", shown_path(file), "--wait", "-n", self.namespace)
        return self.disttest(*arguments, seconds=seconds, waits_for=f"the verdict of {file.stem}, by its own timeouts")

    def show(self, name: str, code: int) -> bool:
        """Print report, description and metrics of a run; False if a part of it cannot be shown."""
        html, raw = self.results / "report.html", self.results / "report.json"
        where = ("-n", self.namespace)
        say("")
        parts: list[Callable[[], object]] = [
            lambda: self.succeed("report", name, *where),
            lambda: self.succeed("report", name, *where, "-o", f"json={raw}", "-o", f"html={html}"),
            lambda: self.succeed("describe", name, *where),
            lambda: self.succeed("list", "-o", "wide", *where),
            self.show_metrics,
        ]
        if code not in (ExitCode.PASSED, ExitCode.TESTS_FAILED):
            parts.append(self.show_pods)
        shown = [self._shows(part) for part in parts]
        if html.exists():
            say(f"report    open {html} in a browser")
        return all(shown)

    def succeed(self, *arguments: str) -> None:
        if code := self.disttest(*arguments):
            raise DemoError(f"disttest {' '.join(arguments)} ended with {code}, see above")

    def show_metrics(self) -> None:
        """Print metrics if the cluster's network can be entered."""

    def show_pods(self) -> None:
        """Print the pods, for a run without a verdict about the tests."""
        say(self.kubectl("get", "pods", "-A", "-o", "wide"))
        say(self.kubectl("-n", SYSTEM, "logs", "deployment/disttest-operator", f"--tail={LOG_LINES}"))

    def hints(self) -> list[str]:
        """Commands for a second terminal while the cluster stays."""
        return [
            f"  export PATH={Path(sys.executable).parent}:$PATH",
            "  disttest apply -f my-disttest.yaml --wait; disttest list; disttest describe NAME; disttest doctor",
        ]

    @staticmethod
    def _shows(part: Callable[[], object]) -> bool:
        try:
            part()
        except DevClusterError as error:
            complain(str(error))
            return False
        return True


def say(text: str) -> None:
    print(text, flush=True)


def step(text: str) -> Callable[[], None]:
    """Announce a step; the returned function prints how long it took."""
    started = time.monotonic()
    say(f"== {text}")
    return lambda: say(f"   {time.monotonic() - started:.1f} s")


def complain(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)


def shown_path(file: Path) -> str:
    return str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)
