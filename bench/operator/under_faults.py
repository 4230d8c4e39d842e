"""Three hundred runs while operators, API server, connections and a node fail: verdicts, counters and writes."""

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from bench.figure import Figure, at_least, exactly
from bench.operator import bench_cluster, load
from bench.operator.bench_cluster import NAMESPACE, STUBS, BenchCluster
from bench.operator.load import Expected
from bench.operator.proxy import Proxy
from devcluster.controlplane.kubeapi import MERGE, Json, KubeApi
from devcluster.machine.settings import stub_names
from devcluster.operator_process import NAMESPACE as OPERATOR_NAMESPACE
from devcluster.operator_process import OperatorProcess
from devcluster.stubnode import behaviour
from disttest_operator.core.api.api_errors import ApiServerError


@dataclass(slots=True)
class CounterWatcher:
    """Compares scrapes of the active operators as Prometheus would: no counter may fall."""

    highest: Counter[str] = field(default_factory=Counter)
    fallen: list[str] = field(default_factory=list)

    def check(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if name.startswith("disttest_runs_total{"):
                if value < self.highest[name]:
                    self.fallen.append(f"{name} fell from {self.highest[name]} to {value:g}")
                self.highest[name] = max(self.highest[name], int(value))


class OperatorPair:
    """Two operators behind the proxy; one that ends is replaced, as by a Deployment."""

    def __init__(self, where: BenchCluster, proxy: Proxy) -> None:
        self._log = where.directory / "operator.log"
        self._proxy = proxy
        self._operators = [self._start(), self._start()]
        self.ended_alone: Counter[int] = Counter()

    def _start(self) -> OperatorProcess:
        return OperatorProcess(self._proxy.kubeconfig, self._log, bench_cluster.FLAGS)

    def scrape(self) -> tuple[OperatorProcess | None, dict[str, float]]:
        """Return the active operator, if there is one, and its metrics."""
        for number, operator in enumerate(self._operators):
            if (code := operator.process.poll()) is not None:
                self.ended_alone[code] += 1
                self._operators[number] = self._start()
            elif (metrics := operator.metrics()).get("disttest_leader") == 1.0:
                return operator, metrics
        return None, {}

    def kill(self, operator: OperatorProcess) -> None:
        operator.kill()
        self._operators[self._operators.index(operator)] = self._start()

    def end(self) -> None:
        for operator in self._operators:
            operator.kill()


RUNS = 300
RATE = 4.0  # runs a second
KILLS = 20
KILL_SECONDS = (2.5, 15.0)  # from one to the next, at least and at most
SERIES = 10
LOST = f"stub{STUBS}"
ON_LOST = 10  # runs that hang on the node which is lost
POOL = "bench/pool"  # label that keeps other runs off the lost node, so that the lost runs are known
SOON = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for why in ("not-ready", "unreachable")
]
LIMIT_SECONDS = 900.0  # for the faults, and then for the last verdicts
SCRAPE_SECONDS = 0.5
PRINT_SECONDS = 20.0
SEED = 7


def expected() -> list[Expected]:
    chance = random.Random(SEED)  # noqa: S311 - runs, no secrets
    return [_one(number, chance) for number in range(RUNS)]


def _one(number: int, chance: random.Random) -> Expected:
    name, series = f"run-{number}", f"series-{number % SERIES}"
    if number % (RUNS // ON_LOST) == 0:
        spec = {"nodeSelector": {"kubernetes.io/hostname": LOST}, "tolerations": SOON}
        manifest = load.run(name, series, nodes=1, template={"spec": spec}, end="hang")
        return Expected(manifest=manifest, verdicts=(("InfraFailed", "NodeLost"),))
    well = {"spec": {"nodeSelector": {POOL: "well"}}}
    seconds, nodes = round(chance.uniform(0, 8), 2), chance.choice((1, 2))
    if number % 10 == 1:
        manifest = load.run(name, series, nodes=nodes, template=well, end="fail", seconds=seconds)
        return Expected(manifest=manifest, verdicts=(("TestsFailed", "CasesFailed"),))
    return Expected(manifest=load.run(name, series, nodes=nodes, template=well, seconds=seconds))


@dataclass(slots=True)
class FaultRun:
    where: BenchCluster
    api: KubeApi
    proxy: Proxy
    pair: OperatorPair
    watcher: CounterWatcher = field(default_factory=CounterWatcher)
    kills: int = 0
    restarts: int = 0

    async def scrape_forever(self) -> None:
        while True:
            _, metrics = await asyncio.to_thread(self.pair.scrape)
            self.watcher.check(metrics)
            await asyncio.sleep(SCRAPE_SECONDS)

    async def print_forever(self) -> None:
        while True:
            await asyncio.sleep(PRINT_SECONDS)
            ended = dict(self.pair.ended_alone)
            counted = sum(self.watcher.highest.values())
            print(f"  {self.kills} kills, {counted} runs counted, {dict(self.proxy.done)}, ended: {ended}", flush=True)

    async def kill_operators(self) -> None:
        """Kill active operators with SIGKILL; mostly delete the Lease too, so that it need not expire."""
        while self.kills < KILLS:
            await self._some_have_finished()
            operator, _ = await asyncio.to_thread(self.pair.scrape)
            if operator is None:
                continue
            self.pair.kill(operator)
            self.kills += 1
            if self.kills % 7:
                path = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}/leases/disttest-operator"
                with contextlib.suppress(ApiServerError):
                    await self.api.request("DELETE", path)

    async def _some_have_finished(self) -> None:
        """Spread the kills over the runs, but wait no longer than the greatest interval."""
        started = time.monotonic()
        await asyncio.sleep(KILL_SECONDS[0])
        goal = self.kills * RUNS * 0.9 / KILLS
        while self.watcher.highest.total() < goal and time.monotonic() - started < KILL_SECONDS[1]:  # noqa: ASYNC110 - scraped
            await asyncio.sleep(SCRAPE_SECONDS)

    async def inject_faults(self) -> None:
        """Inject one fault after the other until all kills are done."""
        faults = self.proxy.faults
        names: tuple[tuple[str, float], ...] = (
            ("too_many", 0.4),
            ("error", 0.3),
            ("lost", 0.2),
            ("latency_seconds", 0.3),
            ("is_gone", True),
            ("is_hanging", True),
        )
        while self.kills < KILLS:
            for name, value in names:
                setattr(faults, name, value)
                if name == "is_gone":
                    self.proxy.cut_watches()
                await asyncio.sleep(3)
                setattr(faults, name, type(value)(0))
                self.proxy.cut_watches()
                await asyncio.sleep(2)
            if self.restarts < 2:
                await asyncio.to_thread(self.where.dev.restart, "kube-apiserver")
                self.restarts += 1

    async def create_runs(self, planned: list[Expected]) -> None:
        started = time.monotonic()
        for number, one in enumerate(planned):
            await asyncio.sleep(max(0.0, started + number / RATE - time.monotonic()))
            await load.insist(self.api, "POST", load.TESTS, one.manifest)

    async def lose_node(self) -> None:
        """Silence the node once all pods that are to be lost with it run."""
        query = {"fieldSelector": f"spec.nodeName={LOST},status.phase=Running"}
        running: list[Json] = []
        while len(running) < ON_LOST:
            await asyncio.sleep(1)
            running = await load.items(self.api, f"/api/v1/namespaces/{NAMESPACE}/pods", **query)
        body = {"metadata": {"annotations": {behaviour.SILENT: "true"}}}
        await load.insist(self.api, "PATCH", f"/api/v1/nodes/{LOST}", body, content_type=MERGE)


async def _left_over(api: KubeApi) -> list[str]:
    """List objects of no run and duplicates. A run with InfraFailed needs no Job: it is deleted to end its pods."""
    runs = {run["metadata"]["uid"]: run["status"]["verdict"] for run in await load.items(api, load.TESTS)}
    uids, with_result = runs.keys(), {uid for uid, verdict in runs.items() if verdict != "InfraFailed"}
    lines = []
    for path, is_needed in ((load.JOBS, True), (f"{_CORE}/services", True), (f"{_CORE}/configmaps", False)):
        owners = Counter(_owner(item) for item in await load.items(api, path) if _owner(item))
        lines += [f"{path}: {uid} has {number}" for uid, number in owners.items() if number > 1 or uid not in uids]
        if is_needed:
            lines += [f"{path}: {uid} has none" for uid in with_result - owners.keys()]
    return lines


_CORE = f"/api/v1/namespaces/{NAMESPACE}"


def _owner(item: Json) -> str:
    owners = item["metadata"].get("ownerReferences") or []
    return next((owner["uid"] for owner in owners if owner["kind"] == "DistTest"), "")


async def _run(where: BenchCluster) -> tuple[FaultRun, list[str], int]:
    planned = expected()
    async with KubeApi(where.cluster.kubeconfig) as api, Proxy(where.kubeconfig) as proxy:
        for name in stub_names(STUBS - 1):
            await api.request(
                "PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {POOL: "well"}}}, content_type=MERGE
            )
        pair = OperatorPair(where, proxy)
        run = FaultRun(where, api, proxy, pair)
        aside = asyncio.gather(run.scrape_forever(), run.print_forever())
        try:
            while not run.watcher.highest and (await asyncio.to_thread(pair.scrape))[0] is None:  # noqa: ASYNC110 - scraped
                await asyncio.sleep(0.2)
            tasks = (run.create_runs(planned), run.kill_operators(), run.inject_faults(), run.lose_node())
            async with asyncio.timeout(LIMIT_SECONDS):
                await asyncio.gather(*tasks)
            await load.until_finished(api, RUNS, LIMIT_SECONDS)
            wrong = await load.wrong(api, planned) + await _left_over(api)
            await asyncio.sleep(3 * SCRAPE_SECONDS)
            _, metrics = await asyncio.to_thread(pair.scrape)
            run.watcher.check(metrics)
            counted = sum(int(value) for name, value in metrics.items() if name.startswith("disttest_runs_total{"))
            return run, wrong, counted
        finally:
            aside.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await aside
            pair.end()


def measure() -> list[Figure]:
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # broken connections are intended
    with bench_cluster.fresh() as where:
        started = time.monotonic()
        run, wrong, counted = asyncio.run(_run(where))
        written = where.writes()
    done = {**run.proxy.done, "kills": run.kills, "API server restarts": run.restarts, "nodes lost": 1}
    print(f"  {time.monotonic() - started:.0f} s; faults: {done}")
    print(f"  operators that ended without a kill: {dict(run.pair.ended_alone)}")
    for line in (*wrong[:30], *run.watcher.fallen[:10], *written.unchanged[:10]):
        print(f"    wrong: {line}")
    return [
        at_least("operator_siege_kills", run.kills, "kills", KILLS),
        exactly("operator_siege_runs_counted", counted, "runs", RUNS),
        exactly("operator_siege_jobs_created", written.by_kind["create jobs"], "Jobs", RUNS),
        exactly("operator_siege_wrong", len(wrong), "findings"),
        exactly("operator_siege_counters_that_fell", len(run.watcher.fallen), "counters"),
        exactly("operator_siege_writes_that_change_nothing", len(written.unchanged), "writes"),
    ]
