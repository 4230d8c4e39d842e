"""Lists of the real API server, as the operator reads them."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.api_client import KubernetesCluster, connect
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import disttest

T = TypeVar("T")


def ask(kubeconfig: Path, question: Callable[[KubernetesCluster], Coroutine[Any, Any, T]]) -> T:
    async def connected() -> T:
        cluster = await connect(lambda *_: None, kubeconfig=str(kubeconfig))
        try:
            return await question(cluster)
        finally:
            await cluster.close()

    return asyncio.run(connected())


@pytest.mark.parametrize("kind", [Kind.RUN, Kind.SERIES, Kind.JOB, Kind.POD])
@pytest.mark.parametrize("only_metadata", [False, True])
def test_a_list_of_nothing_is_empty(installed: Path, kind: Kind, *, only_metadata: bool) -> None:
    async def pages(cluster: KubernetesCluster) -> list[tuple[list[Body], int]]:
        found = cluster.pages(kind, label_selector="unused=label", only_metadata=only_metadata)
        return [page async for page in found]

    ((items, version),) = ask(installed, pages)
    assert items == []
    assert version > 0


def test_metadata_alone_tell_which_object_is_meant_and_how_new_it_is(
    cluster: SessionCluster, namespace: str, installed: Path
) -> None:
    cluster.apply(disttest(namespace, "listed"))

    async def pages(connected: KubernetesCluster) -> list[Body]:
        found = connected.pages(Kind.RUN, namespace, only_metadata=True)
        return [body async for page, _ in found for body in page]

    async def whole(connected: KubernetesCluster) -> Body | None:
        return await connected.get(Kind.RUN, namespace, "listed")

    (light,), full = ask(installed, pages), ask(installed, whole)
    assert "spec" not in light
    assert full is not None
    for field in ("name", "namespace", "uid"):
        assert light["metadata"][field] == full["metadata"][field]
    assert int(light["metadata"]["resourceVersion"]) <= int(full["metadata"]["resourceVersion"])


def test_kopf_gets_the_version_of_a_list_but_no_objects(
    cluster: SessionCluster, namespace: str, installed: Path
) -> None:
    cluster.apply(disttest(namespace, "there"))

    async def as_kopf(connected: KubernetesCluster) -> tuple[Any, Any, bool]:
        root = f"{connected.server}/apis/disttest.dev/v1alpha1"
        before = connected.gap.is_set()
        async with connected.watch_session() as session:
            async with session.get(root) as discovery:
                resources = await discovery.json()
            assert not connected.gap.is_set()
            async with session.get(f"{root}/disttests", params={"limit": "500"}) as listed:
                found = await listed.json()
        return resources, found, connected.gap.is_set() and not before

    resources, listed, leaves_gap = ask(installed, as_kopf)
    assert any(resource["name"] == "disttests" for resource in resources["resources"])
    assert listed["items"] == []
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert leaves_gap, "another list must report what exists"
