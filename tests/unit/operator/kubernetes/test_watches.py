"""The watches, as far as they can be tried without a cluster."""

import asyncio

import kopf
import pytest

from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import ApiServerError
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes import watches
from tests.support.builders.cron_jobs import cron_job_body
from tests.support.fakes.fake_cluster import FakeCluster


def test_a_user_without_a_name_gets_as_far_as_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a container is a number, of which the password file knows nothing."""

    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr("getpass.getuser", fail)
    with pytest.raises(kopf.LoginError):  # there is no cluster here
        asyncio.run(watch_for_a_moment())


async def watch_for_a_moment() -> None:
    stop = asyncio.Event()
    stop.set()
    registry = kopf.OperatorRegistry()
    await watches.watch(registry, namespaces=(), identity="pod-1", stop=stop, on_signal=lambda: None)


def test_cronjobs_are_watched_by_the_label_of_series_and_jobs_and_pods_by_ours() -> None:
    selectors = watches.build_settings().watching.label_selectors
    chosen = {
        kind: selectors.collect(kopf.Resource("" if kind == "pods" else "batch", "v1", kind))
        for kind in ("jobs", "pods", "cronjobs")
    }
    assert {kind: list(found) for kind, found in chosen.items()} == {
        "jobs": [naming.SELECTOR],
        "pods": [naming.SELECTOR],
        "cronjobs": ["disttest.dev/series"],
    }


class FlakyCluster(FakeCluster):
    """Refuses, does not answer, refuses, and then answers."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = ["refuse", "away", "refuse", "answer"]

    async def list(  # type: ignore[explicit-override]  # typing.override came with 3.12
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[Body]:
        step = self.steps.pop(0)
        if step == "away":
            raise ApiServerError("no answer")
        self.refuses_lists = {Kind.CRON_JOB} if step == "refuse" else set()
        return await super().list(kind, namespace, label_selector=label_selector, field_selector=field_selector)


def test_a_refusal_in_one_of_the_namespaces_has_its_reason() -> None:
    cluster = FakeCluster()
    cluster.put(Kind.CRON_JOB, cron_job_body())
    assert asyncio.run(watches.cron_jobs_refusal(cluster, ())) == ""
    cluster.refuses_lists = {Kind.CRON_JOB}
    assert asyncio.run(watches.cron_jobs_refusal(cluster, ("a", "b"))) == "GET /cronjobs: 403 forbidden"


def test_who_waits_for_the_right_goes_on_when_it_is_there_and_not_when_fail_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FlakyCluster()
    asyncio.run(watches.wait_for_cron_jobs(cluster, (), poll_seconds=0))
    assert cluster.steps == []
    assert "the permission to list CronJobs cannot be checked: no answer" in caplog.text
