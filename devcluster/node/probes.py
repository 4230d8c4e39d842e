"""Readiness, liveness and startup probes by HTTP and TCP."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

from devcluster.controlplane.kubeapi import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    url: str  # empty: only a TCP connection is tried
    headers: tuple[tuple[str, str], ...]
    address: str
    port: int
    delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    successes: int
    failures: int


def parse(spec: Json, container: Json, address: str) -> Probe:
    check = spec.get("httpGet") or spec["tcpSocket"]
    port = _port(check["port"], container)
    host = check.get("host") or address
    scheme = check.get("scheme", "HTTP").lower()
    return Probe(
        url=f"{scheme}://{host}:{port}{check.get('path', '/')}" if "httpGet" in spec else "",
        headers=tuple((header["name"], header["value"]) for header in check.get("httpHeaders") or []),
        address=host,
        port=port,
        delay_seconds=spec.get("initialDelaySeconds", 0),
        period_seconds=spec.get("periodSeconds", 10),
        timeout_seconds=spec.get("timeoutSeconds", 1),
        successes=spec.get("successThreshold", 1),
        failures=spec.get("failureThreshold", 3),
    )


def _port(port: int | str, container: Json) -> int:
    named: dict[int | str | None, int] = {
        entry.get("name"): int(entry["containerPort"]) for entry in container.get("ports") or []
    }
    if port in named:
        return named[port]
    return int(port) if str(port).isdecimal() else 0  # no port: the probe of an unknown name fails


async def results(probe: Probe) -> AsyncIterator[tuple[bool, str]]:
    """Yield the result, and the reason of a failure, each time that enough checks in a row agree."""
    await asyncio.sleep(probe.delay_seconds)
    good = bad = 0
    while True:
        failure = await _check(probe)
        good, bad = (0, bad + 1) if failure else (good + 1, 0)
        if good >= probe.successes:
            yield True, ""
        elif bad >= probe.failures:
            yield False, failure
        await asyncio.sleep(probe.period_seconds)


async def _check(probe: Probe) -> str:
    """Return the reason of a failure; empty if the check succeeds."""
    try:
        async with asyncio.timeout(probe.timeout_seconds):
            if probe.url:
                return await _http(probe)
            _, writer = await asyncio.open_connection(probe.address, probe.port)
            writer.close()
            return ""
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        return f"{probe.url or probe.port}: {error!r}"


async def _http(probe: Probe) -> str:
    unverified = ssl._create_unverified_context() if probe.url.startswith("https") else True  # noqa: S323, SLF001 - a kubelet does not verify either
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=unverified)) as session,
        session.get(probe.url, headers=dict(probe.headers), allow_redirects=False) as response,
    ):
        return "" if 200 <= response.status < 400 else f"{probe.url}: HTTP {response.status}"
