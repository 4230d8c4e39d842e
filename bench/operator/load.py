"""Many DistTests at once, and whether each has the expected verdict."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.operator.bench_cluster import NAMESPACE
from devcluster.controlplane.kubeapi import Json, KubeApi
from devcluster.stubnode import behaviour
from disttest_operator.core.api.api_errors import AlreadyExistsError, ResponseLostError, ServerBusyError

TESTS = f"/apis/disttest.dev/v1alpha1/namespaces/{NAMESPACE}/disttests"
SERIES = f"/apis/disttest.dev/v1alpha1/namespaces/{NAMESPACE}/disttestseries"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
AT_ONCE = 16
POLL_SECONDS = 1.0
INSIST_SECONDS = 120  # a restart of the API server takes a few
# The control plane on two cores needs minutes for a thousand gangs.
PATIENT = {"queueSeconds": 7200, "rendezvousSeconds": 600, "caseSeconds": 600, "runSeconds": 7200}
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A DistTest and the pairs of verdict and reason of which it must get one."""

    manifest: Json
    verdicts: tuple[tuple[str, str], ...] = (("Passed", "AllCasesPassed"),)

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def run(name: str, series: str, *, nodes: int = 2, template: Json | None = None, **words: Any) -> Json:
    """Make a DistTest for stub nodes; `words` are annotations about the end of its pods."""
    notes = {f"{behaviour.PREFIX}/{word.replace('_', '-')}": str(value) for word, value in words.items()}
    return {
        "apiVersion": "disttest.dev/v1alpha1",
        "kind": "DistTest",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "suites": [{"name": "collectives"}],
            "series": series,
            "nodes": nodes,
            "gpusPerNode": 0,
            "ranksPerNode": 2,
            "retries": {"infrastructure": 0},
            "timeouts": PATIENT,
            "template": {"metadata": {"annotations": notes}, **(template or {})},
        },
    }


async def some_at_once(requests: Iterable[Awaitable[object]]) -> None:
    """Send them as fast as the API server accepts them."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(request: Awaitable[object]) -> None:
        async with turns:
            await request

    await asyncio.gather(*(one(request) for request in requests))


async def insist(api: KubeApi, method: str, path: str, body: Json | None = None, **options: str) -> Json:
    """Send a request until it succeeds, also through restarts of the API server."""
    deadline = time.monotonic() + INSIST_SECONDS
    while True:
        try:
            return await api.request(method, path, body, **options)
        except AlreadyExistsError:
            return {}
        except (ServerBusyError, ResponseLostError) as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: {method} {path} failed for {INSIST_SECONDS} s: {error}") from error
            await asyncio.sleep(0.5)


async def items(api: KubeApi, path: str, **query: str) -> list[Json]:
    found: list[Json] = []
    query = {"limit": str(PAGE), **query}
    while True:
        page = await insist(api, "GET", path, None, **query)
        found += page["items"]
        if not (token := page["metadata"].get("continue")):
            return found
        query["continue"] = token


async def until_finished(api: KubeApi, count: int, seconds: float) -> float:
    """Wait until `count` runs have a verdict and no ledger has pending entries; return the seconds that it took."""
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        page = await insist(api, "GET", TESTS, None, limit="1", fieldSelector="status.verdict=")
        if not page["items"] and not await _pending(api) and len(await items(api, TESTS)) == count:
            return time.monotonic() - started
        await asyncio.sleep(POLL_SECONDS)
    left = await items(api, TESTS, fieldSelector="status.verdict=")
    raise SystemExit(f"bench: {len(left)} runs have no verdict after {seconds:g} s, such as {left[:1]}")


async def _pending(api: KubeApi) -> int:
    ledgers = await items(api, SERIES)
    return sum(len((ledger.get("status") or {}).get("pending") or ()) for ledger in ledgers)


async def wrong(api: KubeApi, expected: Sequence[Expected]) -> list[str]:
    """List unexpected verdicts, runs with several Jobs, and ledgers that count other runs."""
    found = {test["metadata"]["name"]: test.get("status") or {} for test in await items(api, TESTS)}
    lines, counts = [], Counter[str]()
    for one in expected:
        status = found.pop(one.name, {})
        pair = (status.get("verdict"), status.get("reason"))
        counts[one.manifest["spec"]["series"]] += 1
        if pair not in one.verdicts:
            lines.append(f"{one.name}: {pair}, expected {one.verdicts}: {status.get('message')}")
    lines += [f"{name}: it was not created here" for name in found]
    for ledger in await items(api, SERIES):
        name, status = ledger["metadata"]["name"], ledger.get("status") or {}
        counted = sum(row["count"] for row in (status.get("totals") or {}).get("runs") or ())
        if counted != counts.pop(name, 0) or counted != status.get("runCount"):
            lines.append(f"ledger {name} counts {counted} runs, runCount {status.get('runCount')}")
    lines += [f"ledger {name} is missing" for name in counts]
    jobs = Counter(job["metadata"]["labels"]["disttest.dev/name"] for job in await items(api, JOBS))
    lines += [f"{name} has {number} Jobs" for name, number in jobs.items() if number != 1]
    return lines
