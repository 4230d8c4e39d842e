"""`make demo`: a cluster, the operator and one DistTest, from apply to verdict.

The cluster runs below one process in its own namespaces and ends with this one. The report and a scrape of the metrics
are copied into the cache.
"""

import argparse
import contextlib
import functools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from devcluster import command_line
from devcluster.controlplane.lifecycle import DevCluster
from devcluster.machine import cache, processes
from devcluster.machine.settings import ClusterSettings, DevClusterError
from devcluster.programs import kubernetes
from disttest_contract.gang.suites import BUILTIN
from disttest_runner.compat import override
from tools.demo import current_cluster
from tools.demo.session import ROOT, SYSTEM, DemoError, Session, complain, say, step

SAMPLE = ROOT / "manifests" / "samples" / "cpu-all.yaml"
OVERLAY = ROOT / "manifests" / "overlays" / "dev"
IMAGES = [f"{name}:dev={ROOT / '.venv'}" for name in ("disttest-runner", "disttest-operator")]
NAME = "demo"  # of the DistTest
FIRST_SUITES = ("collectives", "fully-shard-autograd", "pipeline-schedules", "fsdp-exec-order")  # about a minute
READER, READER_ROLE = "metrics-reader", "disttest-metrics-reader"
# The API server's proxy would not forward the token. The operator signed its certificate itself.
SCRAPE = """
import os, ssl, sys, urllib.request
asked = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
print(urllib.request.urlopen(asked, timeout=10, context=ssl._create_unverified_context()).read().decode())
"""
NO_VERDICT = 1
HOLD_VARIABLE = "HOLD"  # `make demo HOLD=1`: keep the cluster until Ctrl-C


class Demo(Session):
    """The session on a cluster that the demo starts."""

    def __init__(self, cluster: DevCluster, results: Path) -> None:
        super().__init__(command_line.kubectl(say), {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}, results)
        self.cluster = cluster

    @override
    def install(self) -> None:
        self.kubectl("apply", "-k", str(OVERLAY))
        self.wait_for_operator()

    @functools.cached_property
    def token(self) -> str:
        """A token of a ServiceAccount that may scrape, created on first use: after the verdict."""
        self.kubectl("-n", SYSTEM, "create", "serviceaccount", READER)
        bound = (f"--clusterrole={READER_ROLE}", f"--serviceaccount={SYSTEM}:{READER}")
        self.kubectl("create", "clusterrolebinding", READER, *bound)
        return self.kubectl("-n", SYSTEM, "create", "token", READER).strip()

    def metrics_url(self) -> str:
        found = self.kubectl(
            "-n", SYSTEM, "get", "pods", "-l", "app.kubernetes.io/name=disttest-operator", "-o", "json"
        )
        return f"https://{json.loads(found)['items'][0]['status']['podIP']}:8443/metrics"

    def scrape(self) -> str:
        """The metrics, requested as a Prometheus in the cluster would."""
        command = self.cluster.command_inside([sys.executable, "-c", SCRAPE, self.metrics_url()])
        environment = {**self.environment, "TOKEN": self.token}
        return processes.output(*command, title="reading the metrics", environment=environment, seconds=30)

    @override
    def show_metrics(self) -> None:
        metrics = self.scrape()
        (self.results / "metrics.txt").write_text(metrics)
        say(f"metrics   {self.metrics_url()} with a token; a copy is {self.results / 'metrics.txt'}. Some of them:")
        for line in metrics.splitlines():
            if line.startswith(("disttest_runs_total", "disttest_cases_total")) and not line.endswith(" 0.0"):
                say(f"          {line}")

    @override
    def hints(self) -> list[str]:
        path, *others = super().hints()
        if shutil.which("kubectl") is None:
            path = path.replace("PATH=", f"PATH={self.offer_kubectl().parent}:", 1) + "   # with this cluster's kubectl"
        inside = f".venv/bin/python -m devcluster --state {self.cluster.state} exec"
        return [
            f"  export KUBECONFIG={self.cluster.kubeconfig}",
            path,
            *others,
            f"  TOKEN=$(kubectl -n {SYSTEM} create token {READER})",
            f'  {inside} curl -k -H "Authorization: Bearer $TOKEN" {self.metrics_url()}',
        ]

    def offer_kubectl(self) -> Path:
        """A link named kubectl to the binary of all programs, which chooses the program by its name."""
        link = self.cluster.state / "bin" / "kubectl"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(self.program[0])
        return link


def suites(asked: str) -> tuple[str, ...]:
    """The suites to run: those of the sample for `all`, the named ones, or by default the first few."""
    if asked == "all":
        return tuple(suite["name"] for suite in yaml.safe_load(SAMPLE.read_text())["spec"]["suites"])
    names = tuple(filter(None, (name.strip() for name in asked.split(",")))) or FIRST_SUITES
    if unknown := [name for name in names if name not in BUILTIN]:
        raise DemoError(f"unknown suites: {', '.join(unknown)}. Known: all, {', '.join(sorted(BUILTIN))}")
    return names


def disttest_of(names: Sequence[str]) -> dict[str, Any]:
    test: dict[str, Any] = yaml.safe_load(SAMPLE.read_text())
    test["metadata"]["name"] = NAME
    test["spec"]["suites"] = [{"name": name} for name in names]
    return test


def hold(session: Session) -> None:
    """Leave the cluster to the user until Ctrl-C."""
    say("")
    say("The cluster stays until Ctrl-C. In a second terminal:")
    try:
        for line in session.hints():
            say(line)
    except DevClusterError as error:
        complain(str(error))
    try:
        signal.pause()
    except KeyboardInterrupt:
        say("ending the demo")


@contextlib.contextmanager
def started(cluster: DevCluster, name: str = "demo") -> Iterator[Demo]:
    """A new cluster, which is removed at the end; its results are in the folder `name` of the cache."""
    done = step("starting a Kubernetes control plane and two process nodes")
    programs = kubernetes.programs(say, on_path=True)
    cluster.start(
        ClusterSettings(programs=programs, nodes=2, gpus=0, images=command_line.parse_image(IMAGES, [])), owned=True
    )
    try:
        done()
        say(f"   to follow it from a second terminal: export KUBECONFIG={cluster.kubeconfig}")
        yield Demo(cluster, results(name))
    finally:
        cluster.remove()


def results(name: str = "demo") -> Path:
    directory = cache.root() / name
    directory.mkdir(parents=True, exist_ok=True)
    for old in ("report.html", "report.json", "metrics.txt"):
        (directory / old).unlink(missing_ok=True)
    return directory


def install(session: Session) -> None:
    done = step("installing CRDs, permissions, policies and the operator: kubectl apply -k manifests/overlays/dev")
    session.install()
    done()


def is_to_hold() -> bool:
    """Whether a user is at a terminal or asked for it."""
    return bool(os.environ.get(HOLD_VARIABLE)) or (sys.stdin.isatty() and sys.stdout.isatty())


def present(session: Session, names: Sequence[str]) -> int:
    """Install, run and show; then hold, also after a failure. Returns the exit code."""
    try:
        code = from_apply_to_verdict(session, names)
    except DevClusterError as error:
        complain(str(error))
        code = NO_VERDICT
    if is_to_hold():
        hold(session)
    return code


def from_apply_to_verdict(session: Session, names: Sequence[str]) -> int:
    install(session)
    file = session.results / f"{NAME}.yaml"
    file.write_text(yaml.safe_dump(disttest_of(names), sort_keys=False))
    done = step(f"a DistTest of 2 pods x 2 ranks: {', '.join(names)}")
    try:
        code = session.run(file)
    except DevClusterError as error:
        complain(str(error))
        code = NO_VERDICT
    done()
    return code if session.show(NAME, code) else code or NO_VERDICT


def own_cluster() -> DevCluster:
    return DevCluster(cache.cluster(f"demo-{os.getpid()}"))


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(show: Callable[[], int]) -> int:
    """Call `show` and return its exit code; print an error in one line."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        return show()
    except DevClusterError as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        complain("interrupted; what it started has ended")
        return 130


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.demo.demo")
    parser.add_argument("--suites", default="", help="Suites to run: all, or names separated by commas")
    parser.add_argument(
        "--cluster", default="own", help="Cluster to use: own (a local cluster), or current (kubectl's current context)"
    )
    parser.add_argument("--operator-image", default="disttest-operator:dev", help="for --cluster=current")
    parser.add_argument("--runner-image", default="disttest-runner:dev", help="for --cluster=current")
    return parser.parse_args(arguments)


def demo(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    names = suites(options.suites)
    match options.cluster:
        case "own":
            with started(own_cluster()) as session:
                return present(session, names)
        case "current":
            images = current_cluster.Images(operator=options.operator_image, runner=options.runner_image)
            program = (found,) if (found := shutil.which("kubectl")) else command_line.kubectl(say)
            with current_cluster.borrowed(program, results(), images, OVERLAY) as current:
                return present(current, names)
        case other:
            raise DemoError(f"--cluster={other} is unknown; known: own, current")


if __name__ == "__main__":
    sys.exit(main(lambda: demo(sys.argv[1:])))
