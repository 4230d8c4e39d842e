"""Three hundred runs while everything around the operator breaks: right verdicts, exact counters, nothing twice."""

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.figure import Figure
from bench.operator import load, place, subject
from bench.operator.load import Expected
from bench.operator.place import NAMESPACE, OPERATOR_NAMESPACE, STUBS, BenchCluster
from bench.operator.proxy import Proxy
from devcluster.controlplane.kubeapi import MERGE, Json, KubeApi
from devcluster.machine.settings import stub_names
from devcluster.stubnode import behaviour
from tests.support.operators.operator import OperatorProcess


@dataclass(slots=True)
class CounterWatcher:
    """Scrapes the active operator as Prometheus would: no counter may ever fall, over all operators."""

    highest: Counter[str] = field(default_factory=Counter)
    fallen: list[str] = field(default_factory=list)

    def look(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if name.startswith("disttest_runs_total{"):
                if value < self.highest[name]:
                    self.fallen.append(f"{name} fell from {self.highest[name]} to {value:g}")
                self.highest[name] = max(self.highest[name], int(value))


class OperatorPair:
    """Two operators behind the proxy; one that ends is started anew, as a Deployment would."""

    def __init__(self, where: BenchCluster, proxy: Proxy) -> None:
        self._log = where.directory / "operator.log"
        self._proxy = proxy
        self._operators = [self._start(), self._start()]
        self.ended_by_themselves: Counter[int] = Counter()

    def _start(self) -> OperatorProcess:
        return OperatorProcess(self._proxy.kubeconfig, self._log, subject.FLAGS)

    def scrape(self) -> tuple[OperatorProcess | None, dict[str, float]]:
        """The one that acts, and what it says."""
        for number, operator in enumerate(self._operators):
            if (code := operator.process.poll()) is not None:
                self.ended_by_themselves[code] += 1
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
POOL = "bench/pool"  # label: the lost node is kept apart, so that what it takes with it is known
SOON = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for why in ("not-ready", "unreachable")
]
LIMIT_SECONDS = 900.0
SCRAPE_SECONDS = 0.5
TELL_SECONDS = 20.0
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
class Siege:
    where: BenchCluster
    api: KubeApi
    proxy: Proxy
    pair: OperatorPair
    watcher: CounterWatcher = field(default_factory=CounterWatcher)
    kills: int = 0
    restarts: int = 0

    async def scrape_for_ever(self) -> None:
        while True:
            _, metrics = await asyncio.to_thread(self.pair.scrape)
            self.watcher.look(metrics)
            await asyncio.sleep(SCRAPE_SECONDS)

    async def tell_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            ended = dict(self.pair.ended_by_themselves)
            counted = sum(self.watcher.highest.values())
            print(f"  {self.kills} kills, {counted} runs counted, {dict(self.proxy.done)}, ended: {ended}", flush=True)

    async def kill_for_ever(self) -> None:
        """Kill -9. Mostly its Lease goes with it, so that the next one acts at once; sometimes it has to expire."""
        while self.kills < KILLS:
            await self._some_have_finished()
            operator, _ = await asyncio.to_thread(self.pair.scrape)
            if operator is None:
                continue
            self.pair.kill(operator)
            self.kills += 1
            if self.kills % 7:
                path = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}/leases/disttest-operator"
                with contextlib.suppress(Exception):
                    await self.api.request("DELETE", path)

    async def _some_have_finished(self) -> None:
        """So that kills go on until the runs are nearly done, and are not stopped by runs that do not get on."""
        begun = time.monotonic()
        await asyncio.sleep(KILL_SECONDS[0])
        goal = self.kills * RUNS * 0.9 / KILLS
        while self.watcher.highest.total() < goal and time.monotonic() - begun < KILL_SECONDS[1]:  # noqa: ASYNC110 - scraped
            await asyncio.sleep(SCRAPE_SECONDS)

    async def storms(self) -> None:
        """One after the other, until all kills are done."""
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

    async def give(self, planned: list[Expected]) -> None:
        """At an even rate; the node is lost when all of its runs are there."""
        turns = asyncio.Semaphore(1)
        begun = time.monotonic()
        for number, one in enumerate(planned):
            await asyncio.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            async with turns:
                await load.insist(self.api, "POST", load.TESTS, one.manifest)

    async def lose_node(self) -> None:
        """When all the pods that are to go with it run."""
        query = {"fieldSelector": f"spec.nodeName={LOST},status.phase=Running"}
        running: list[Json] = []
        while len(running) < ON_LOST:
            await asyncio.sleep(1)
            running = await load.items(self.api, f"/api/v1/namespaces/{NAMESPACE}/pods", **query)
        body = {"metadata": {"annotations": {behaviour.SILENT: "true"}}}
        await load.insist(self.api, "PATCH", f"/api/v1/nodes/{LOST}", body, content_type=MERGE)


async def _left_over(api: KubeApi) -> list[str]:
    """Objects that belong to no run, or twice to one. The Job of a run that ended otherwise is taken from its pods."""
    runs = {run["metadata"]["uid"]: run["status"]["verdict"] for run in await load.items(api, load.TESTS)}
    uids, with_result = runs.keys(), {uid for uid, verdict in runs.items() if verdict != "InfraFailed"}
    lines = []
    for path, at_least in ((load.JOBS, 1), (f"{_CORE}/services", 1), (f"{_CORE}/configmaps", 0)):
        owners = Counter(_owner(item) for item in await load.items(api, path) if _owner(item))
        lines += [f"{path}: {uid} has {number}" for uid, number in owners.items() if number > 1 or uid not in uids]
        if at_least:
            lines += [f"{path}: {uid} has none" for uid in with_result - owners.keys()]
    return lines


_CORE = f"/api/v1/namespaces/{NAMESPACE}"


def _owner(item: Json) -> str:
    owners = item["metadata"].get("ownerReferences") or []
    return next((owner["uid"] for owner in owners if owner["kind"] == "DistTest"), "")


async def _besiege(where: BenchCluster) -> tuple[Siege, list[str], int]:
    planned = expected()
    async with load.kube_api(where.cluster.kubeconfig) as api, Proxy(where.kubeconfig) as proxy:
        for name in stub_names(STUBS - 1):
            await api.request(
                "PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {POOL: "well"}}}, content_type=MERGE
            )
        pair = OperatorPair(where, proxy)
        siege = Siege(where, api, proxy, pair)
        aside = asyncio.gather(siege.scrape_for_ever(), siege.tell_for_ever())
        try:
            await _until(lambda: bool(siege.watcher.highest) or pair.scrape()[0] is not None)
            tasks = (siege.give(planned), siege.kill_for_ever(), siege.storms(), siege.lose_node())
            await asyncio.gather(*tasks)
            await load.until_finished(api, RUNS, LIMIT_SECONDS)
            wrong = await load.wrong(api, planned) + await _left_over(api)
            await asyncio.sleep(3 * SCRAPE_SECONDS)
            _, metrics = await asyncio.to_thread(pair.scrape)
            siege.watcher.look(metrics)
            counted = sum(int(value) for name, value in metrics.items() if name.startswith("disttest_runs_total{"))
            return siege, wrong, counted
        finally:
            aside.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await aside
            pair.end()


async def _until(condition: Callable[[], bool]) -> None:
    reached = False
    while not reached:
        await asyncio.sleep(0.2)
        reached = await asyncio.to_thread(condition)


def measure() -> list[Figure]:
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # connections that break are what is wanted
    with place.fresh() as where:
        begun = time.monotonic()
        siege, wrong, counted = asyncio.run(_besiege(where))
        written = where.writes()
    done = {**siege.proxy.done, "kills": siege.kills, "API server restarts": siege.restarts, "nodes lost": 1}
    print(f"  {time.monotonic() - begun:.0f} s; faults: {done}")
    print(f"  operators that ended by themselves: {dict(siege.pair.ended_by_themselves)}")
    for line in (*wrong[:30], *siege.watcher.fallen[:10], *written.idle[:10]):
        print(f"    wrong: {line}")
    rows = (
        ("kills", siege.kills, "kills", ">=", KILLS),
        ("runs_counted", counted, "runs", "==", RUNS),
        ("jobs_created", written.by_kind["create jobs"], "Jobs", "==", RUNS),
        ("wrong", len(wrong), "findings", "==", 0),
        ("counters_that_fell", len(siege.watcher.fallen), "counters", "==", 0),
        ("writes_that_change_nothing", len(written.idle), "writes", "==", 0),
    )
    return [
        Figure(name=f"operator_siege_{name}", value=value, unit=unit, compare=compare, goal=goal)
        for name, value, unit, compare, goal in rows
    ]
