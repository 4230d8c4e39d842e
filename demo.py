"""The main job, seen by a user: a cluster, the operator, one DistTest, from apply to verdict. `make demo` runs it.

Everything lives below one process in its own namespaces and ends with this one. What is worth keeping, the report and
a scrape of the metrics, is copied into the cache.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from devcluster import access, build, cache, images
from devcluster.errors import ClusterError
from devcluster.lifecycle import Cluster
from devcluster.settings import Settings

ROOT = Path(__file__).resolve().parent
SAMPLE = ROOT / "manifests" / "samples" / "cpu-all.yaml"
OVERLAY = ROOT / "manifests" / "overlays" / "dev"
IMAGES = [f"{name}:dev={ROOT / '.venv'}" for name in ("disttest-runner", "disttest-operator")]
SYSTEM = "disttest-system"
READER, READER_ROLE = "metrics-reader", "disttest-metrics-reader"
# Not by the API server's proxy, which passes no token on. The operator signed its certificate itself.
SCRAPE = """
import os, ssl, sys, urllib.request
asked = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
print(urllib.request.urlopen(asked, timeout=10, context=ssl._create_unverified_context()).read().decode())
"""
OPERATOR_SECONDS = 60
RUN_SECONDS = 1800
HOLD_VARIABLE = "HOLD"  # `make demo HOLD=1`: keep the cluster until Ctrl-C


class DemoError(Exception):
    """One sentence: what did not happen, and where to look."""


class Demo:
    def __init__(self, cluster: Cluster, results: Path) -> None:
        self.cluster = cluster
        self.results = results
        self.program = access.kubectl(say)
        self.environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        self.token = ""  # of who may scrape

    def kubectl(self, *arguments: str, seconds: float = 60) -> str:
        """Run kubectl as the administrator; a failure is a DemoError with what it said."""
        done = subprocess.run(
            [*self.program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise DemoError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def install(self) -> None:
        """The operator, from the manifests, in a pod, with exactly its own rights."""
        self.kubectl("apply", "-k", str(OVERLAY))
        self.kubectl("wait", "--for=condition=Established", "crd/disttests.disttest.dev", "--timeout=30s")
        try:
            limit = f"--timeout={OPERATOR_SECONDS}s"
            self.kubectl("-n", SYSTEM, "rollout", "status", "deployment/disttest-operator", limit, seconds=90)
        except DemoError as error:
            pods = self.kubectl("-n", SYSTEM, "describe", "pods")
            raise DemoError(f"the operator did not become ready: {error}\n{pods[-3000:]}") from error
        self.let_scrape()

    def disttest(self, *arguments: str) -> int:
        """The command line, as a user has it; returns its exit code."""
        say(f"$ disttest {' '.join(arguments)}")
        program = [sys.executable, "-m", "disttest_cli.main", *arguments]
        try:
            return subprocess.run(program, env=self.environment, cwd=ROOT, timeout=RUN_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"disttest {' '.join(arguments)} has not ended after {RUN_SECONDS} s") from error

    def shown(self, *arguments: str) -> None:
        """What must be there after every run, whatever its verdict."""
        if code := self.disttest(*arguments):
            raise DemoError(f"disttest {' '.join(arguments)} ended with {code}, see above")

    def run(self, sample: Path = SAMPLE) -> int:
        """From apply to verdict; returns the exit code that stands for it."""
        return self.disttest("apply", "-f", str(sample.relative_to(ROOT)), "--wait")

    def show_results(self, name: str) -> None:
        """The table, and where report and metrics are."""
        html, raw = self.results / "report.html", self.results / "report.json"
        say("")
        self.shown("report", name)
        self.shown("report", name, "-o", f"json={raw}", "-o", f"html={html}")
        self.shown("describe", name)
        self.shown("list", "-o", "wide")
        metrics = self.scrape()
        (self.results / "metrics.txt").write_text(metrics)
        say(f"metrics   {self.metrics_url()} for who may; a copy is {self.results / 'metrics.txt'}. Some of them:")
        for line in metrics.splitlines():
            if line.startswith(("disttest_runs_total", "disttest_cases_total")) and not line.endswith(" 0.0"):
                say(f"          {line}")
        say(f"report    open {html} in a browser")

    def let_scrape(self) -> None:
        """A ServiceAccount that may, as for a Prometheus."""
        self.kubectl("-n", SYSTEM, "create", "serviceaccount", READER)
        bound = (f"--clusterrole={READER_ROLE}", f"--serviceaccount={SYSTEM}:{READER}")
        self.kubectl("create", "clusterrolebinding", READER, *bound)
        self.token = self.kubectl("-n", SYSTEM, "create", "token", READER).strip()

    def metrics_url(self) -> str:
        found = self.kubectl(
            "-n", SYSTEM, "get", "pods", "-l", "app.kubernetes.io/name=disttest-operator", "-o", "json"
        )
        return f"https://{json.loads(found)['items'][0]['status']['podIP']}:8443/metrics"

    def scrape(self) -> str:
        """As a Prometheus in the cluster would."""
        command = self.cluster.command_inside([sys.executable, "-c", SCRAPE, self.metrics_url()])
        environment = {**self.environment, "TOKEN": self.token}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise DemoError(f"the metrics cannot be read: {done.stderr.strip()[-500:]}")
        return done.stdout


def say(text: str) -> None:
    print(text, flush=True)


def step(text: str) -> Callable[[], None]:
    """Announce a step; the function returned says how long it took."""
    started = time.monotonic()
    say(f"== {text}")
    return lambda: say(f"   {time.monotonic() - started:.1f} s")


def hold(demo: Demo) -> None:
    """Leave the cluster to the user until Ctrl-C."""
    say("")
    say("The cluster stays until Ctrl-C. In a second terminal:")
    say(f"  export KUBECONFIG={demo.cluster.kubeconfig}")
    say(f"  export PATH={Path(sys.executable).parent}:$PATH")
    say("  disttest apply -f my-disttest.yaml --wait; disttest list; disttest describe NAME; disttest doctor")
    say(f"  TOKEN=$(kubectl -n {SYSTEM} create token {READER})")
    inside = f".venv/bin/python -m devcluster --state {demo.cluster.state} exec"
    say(f'  {inside} curl -k -H "Authorization: Bearer $TOKEN" {demo.metrics_url()}')
    try:
        signal.pause()
    except KeyboardInterrupt:
        say("ending the cluster")


@contextlib.contextmanager
def started(cluster: Cluster) -> Iterator[Demo]:
    """A cluster with the operator in it; it is ended at the end."""
    done = step("starting a Kubernetes control plane and two process nodes")
    wanted = Settings(programs=build.programs(say), nodes=2, gpus=0, images=images.parse(IMAGES, []))
    cluster.start(wanted, owned=True)
    try:
        done()
        results = cache.root() / "demo"
        results.mkdir(parents=True, exist_ok=True)
        demo = Demo(cluster, results)
        say(f"   to look on from a second terminal: export KUBECONFIG={cluster.kubeconfig}")
        done = step("installing CRDs, rights, policies and the operator: kubectl apply -k manifests/overlays/dev")
        demo.install()
        done()
        yield demo
    finally:
        cluster.remove()


def is_to_hold() -> bool:
    """Whether somebody looks on, or asked for it."""
    return bool(os.environ.get(HOLD_VARIABLE)) or (sys.stdin.isatty() and sys.stdout.isatty())


def run(cluster: Cluster) -> int:
    with started(cluster) as demo:
        done = step("a DistTest of 2 pods x 2 ranks")
        code = demo.run()
        done()
        demo.show_results(SAMPLE.stem)
        if is_to_hold():
            hold(demo)
        return code


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(show: Callable[[Cluster], int] = run) -> int:
    """Exit code 0 if what is shown is as it should be."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        return show(Cluster(cache.cluster(f"demo-{os.getpid()}")))
    except (DemoError, ClusterError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; the cluster has ended", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
