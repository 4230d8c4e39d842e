"""The Kubernetes client against a small server: what it sends, and what it does not."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client as kube_client

from disttest_operator.core.api.api_errors import ApiServerError
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.kubernetes.api_client import KubernetesCluster
from disttest_operator.kubernetes.ports import Cluster
from disttest_operator.serving import access

SERVICE: Manifest = {"metadata": {"name": "nightly-a1", "namespace": "gpu-ci"}}
LEASE: Manifest = {"metadata": {"name": "disttest-operator", "namespace": "gpu-ci"}}
SCRAPER = {"username": "scraper"}
META = {"name": "nightly", "namespace": "gpu-ci", "uid": "u", "resourceVersion": "1"}
Call = Callable[[Cluster], Awaitable[object]]
WRITES: dict[str, Call] = {
    "create": lambda cluster: cluster.create(Kind.SERVICE, SERVICE),
    "replace": lambda cluster: cluster.replace(Kind.SERVICE, SERVICE),
    "patch": lambda cluster: cluster.patch_status(Kind.RUN, META, {}),
    "give to others": lambda cluster: cluster.patch_owners(Kind.CONFIG_MAP, META, []),
    "delete": lambda cluster: cluster.delete(Kind.JOB, "gpu-ci", "nightly-a1", uid="u"),
}
ALLOWED: dict[str, Call] = {
    "get": lambda cluster: cluster.get(Kind.RUN, "gpu-ci", "nightly"),
    "create a lease": lambda cluster: cluster.create(Kind.LEASE, LEASE),
    "renew a lease": lambda cluster: cluster.replace(Kind.LEASE, LEASE),
    "ask whose a token is": lambda cluster: cluster.create(Kind.TOKEN_REVIEW, access.token_review("t")),
    "ask what a user may": lambda cluster: cluster.create(Kind.ACCESS_REVIEW, access.access_review(SCRAPER)),
}


def do(call: Call, seen: list[str], may_write: Callable[[], bool], text: str = "{}") -> None:
    """`seen` is what reaches the server, `text` its answer."""

    async def answer(request: web.Request) -> web.Response:
        seen.append(f"{request.method} {request.path}")
        return web.Response(text=text)

    async def scenario() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with TestServer(app) as server:
            configuration = kube_client.Configuration()
            configuration.host = str(server.make_url("")).rstrip("/")
            cluster = KubernetesCluster(configuration, lambda *_: None, connections=4)
            cluster.fence(may_write)
            try:
                await call(cluster)
            finally:
                await cluster.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES.keys())
def test_nothing_is_written_without_a_lease_that_was_renewed_in_time(call: Call) -> None:
    seen: list[str] = []
    with pytest.raises(ApiServerError, match="not sent"):
        do(call, seen, lambda: False)
    assert seen == []


@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES.keys())
def test_the_holder_of_the_lease_writes(call: Call) -> None:
    seen: list[str] = []
    do(call, seen, lambda: True)
    assert len(seen) == 1


@pytest.mark.parametrize("call", ALLOWED.values(), ids=ALLOWED.keys())
def test_a_standby_only_reads_and_sends_leases_and_reviews(call: Call) -> None:
    seen: list[str] = []
    do(call, seen, lambda: False)
    assert len(seen) == 1


@pytest.mark.parametrize("call", [*ALLOWED.values(), lambda cluster: cluster.list(Kind.NODE)], ids=[*ALLOWED, "list"])
def test_an_answer_that_is_no_json_is_an_error_of_the_cluster(call: Call) -> None:
    """As from a proxy that sends a login page: the caller tries again, and the process does not end."""
    with pytest.raises(ApiServerError, match=r"JSON|cannot be read"):
        do(call, [], lambda: True, text="<html>")


def test_the_time_of_the_api_server_is_that_of_its_last_answer() -> None:
    times: list[datetime | None] = []

    async def call(cluster: Cluster) -> None:
        times.append(cluster.server_time)
        await cluster.get(Kind.RUN, "gpu-ci", "nightly")
        times.append(cluster.server_time)

    do(call, [], lambda: True)
    before, after = times
    assert before is None
    assert after is not None
    assert abs(datetime.now(UTC) - after) < timedelta(seconds=60)
