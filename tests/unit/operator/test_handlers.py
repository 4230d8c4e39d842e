"""The watches, as far as they can be tried without a cluster."""

import asyncio

import kopf
import pytest

from disttest_operator import handlers


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
