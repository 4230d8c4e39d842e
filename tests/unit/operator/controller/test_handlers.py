"""The watches, as far as they can be tried without a cluster."""

import asyncio

import kopf
import pytest

from disttest_operator.controller import handlers
from disttest_operator.core.api import naming


def test_a_user_without_a_name_gets_as_far_as_the_clusters_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a container is a number, of which the password file knows nothing."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr("getpass.getuser", nobody)
    with pytest.raises(kopf.LoginError):  # there is no cluster here
        asyncio.run(watch_for_a_moment())


async def watch_for_a_moment() -> None:
    stop = asyncio.Event()
    stop.set()
    registry = kopf.OperatorRegistry()
    await handlers.watch(registry, namespaces=(), identity="pod-1", stop=stop, on_signal=lambda: None)


def test_cronjobs_are_watched_by_the_label_of_series_and_jobs_and_pods_by_ours() -> None:
    selectors = handlers.settings().watching.label_selectors
    chosen = {
        kind: selectors.collect(kopf.Resource("" if kind == "pods" else "batch", "v1", kind))
        for kind in ("jobs", "pods", "cronjobs")
    }
    assert {kind: list(found) for kind, found in chosen.items()} == {
        "jobs": [naming.SELECTOR],
        "pods": [naming.SELECTOR],
        "cronjobs": ["disttest.dev/series"],
    }
