"""Many DistTests at once, and whether all of them came to what they should."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.operator.place import NAMESPACE
from devcluster.controlplane.kubeapi import UNREACHABLE, ApiError, Json, KubeApi
from devcluster.stubnode import behaviour
from tests.support.operators.operator import disttest

TESTS = f"/apis/disttest.dev/v1alpha1/namespaces/{NAMESPACE}/disttests"
SERIES = f"/apis/disttest.dev/v1alpha1/namespaces/{NAMESPACE}/disttestseries"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
AT_ONCE = 16
POLL_SECONDS = 1.0
# The control plane of two cores needs minutes to make a thousand gangs.
PATIENT = {"queueSeconds": 7200, "joinSeconds": 600, "caseSeconds": 600, "runSeconds": 7200}
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A DistTest and what it must come to: one of these pairs of verdict and reason."""

    manifest: Json
    verdicts: tuple[tuple[str, str], ...] = (("Passed", "AllCasesPassed"),)

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def run(name: str, series: str, *, nodes: int = 2, template: Json | None = None, **words: Any) -> Json:
    """On stub nodes, which do as the words say."""
    notes = {f"{behaviour.PREFIX}/{word.replace('_', '-')}": str(value) for word, value in words.items()}
    chosen = {"metadata": {"annotations": notes}, **(template or {})}
    return disttest(NAMESPACE, name, series=series, nodes=nodes, template=chosen, timeouts=PATIENT)


async def create(api: KubeApi, manifests: Iterable[Json]) -> None:
    """As fast as the API server takes them."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(manifest: Json) -> None:
        async with turns:
            await insist(api, "POST", TESTS, manifest)

    await asyncio.gather(*(one(manifest) for manifest in manifests))


async def insist(api: KubeApi, method: str, path: str, body: Json | None = None, **options: str) -> Json:
    """Through restarts of the API server."""
    while True:
        try:
            return await api.request(method, path, body, **options)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return {}
            if error.status < 500 and error.status != 429:
                raise
        except UNREACHABLE:
            pass
        await asyncio.sleep(0.5)


async def items(api: KubeApi, path: str, **query: str) -> list[Json]:
    """Page by page."""
    found: list[Json] = []
    query = {"limit": str(PAGE), **query}
    while True:
        page = await insist(api, "GET", path, None, **query)
        found += page["items"]
        if not (token := page["metadata"].get("continue")):
            return found
        query["continue"] = token


async def until_finished(api: KubeApi, count: int, seconds: float) -> float:
    """Waits until so many runs have a verdict and every ledger has settled; tells how long that took."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        page = await insist(api, "GET", TESTS, None, limit="1", fieldSelector="status.verdict=")
        if not page["items"] and not await _pending(api):
            listed = await items(api, TESTS)
            if len(listed) == count:
                return time.monotonic() - begun
        await asyncio.sleep(POLL_SECONDS)
    left = await items(api, TESTS, fieldSelector="status.verdict=")
    raise SystemExit(f"bench: {len(left)} runs have no verdict after {seconds:g} s, such as {left[:1]}")


async def _pending(api: KubeApi) -> int:
    ledgers = await items(api, SERIES)
    return sum(len((ledger.get("status") or {}).get("pending") or ()) for ledger in ledgers)


async def wrong(api: KubeApi, expected: Sequence[Expected]) -> list[str]:
    """Which runs did not come to what they should, which Jobs are too many, which ledgers count otherwise."""
    found = {test["metadata"]["name"]: test.get("status") or {} for test in await items(api, TESTS)}
    lines, counts = [], Counter[str]()
    for one in expected:
        status = found.pop(one.name, {})
        pair = (status.get("verdict"), status.get("reason"))
        counts[one.manifest["spec"]["series"]] += 1
        if pair not in one.verdicts:
            lines.append(f"{one.name}: {pair}, expected {one.verdicts}: {status.get('message')}")
    lines += [f"{name}: nobody asked for it" for name in found]
    for ledger in await items(api, SERIES):
        name, status = ledger["metadata"]["name"], ledger.get("status") or {}
        counted = sum(row["count"] for row in (status.get("totals") or {}).get("runs") or ())
        if counted != counts.pop(name, 0) or counted != status.get("runCount"):
            lines.append(f"ledger {name} counts {counted} runs, runCount {status.get('runCount')}")
    lines += [f"ledger {name} is missing" for name in counts]
    jobs = Counter(job["metadata"]["labels"]["disttest.dev/name"] for job in await items(api, JOBS))
    lines += [f"{name} has {number} Jobs" for name, number in jobs.items() if number != 1]
    return lines


def kube_api(kubeconfig: Path) -> KubeApi:
    return KubeApi(kubeconfig)
