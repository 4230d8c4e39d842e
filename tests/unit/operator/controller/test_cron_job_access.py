import asyncio

import pytest

from disttest_operator.controller import cron_job_access
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import ClusterError, Kind
from tests.support.builders.cron_jobs import cron_job_body
from tests.support.fakes.fake_cluster import FakeCluster


class Hesitating(FakeCluster):
    """Refuses, does not answer, refuses, and then answers."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = ["refuse", "away", "refuse", "answer"]

    async def list(  # type: ignore[explicit-override]  # typing.override came with 3.12
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> tuple[list[Body], int]:
        step = self.steps.pop(0)
        if step == "away":
            raise ClusterError("no answer")
        self.refuses_lists = {Kind.CRON_JOB} if step == "refuse" else set()
        return await super().list(kind, namespace, label_selector=label_selector, field_selector=field_selector)


def test_it_is_told_why_cronjobs_cannot_be_read_in_one_of_the_namespaces() -> None:
    cluster = FakeCluster()
    cluster.put(Kind.CRON_JOB, cron_job_body())
    assert asyncio.run(cron_job_access.refusal(cluster, ())) == ""
    cluster.refuses_lists = {Kind.CRON_JOB}
    assert asyncio.run(cron_job_access.refusal(cluster, ("a", "b"))) == "GET /cronjobs: 403 forbidden"


def test_who_waits_for_the_right_goes_on_when_it_is_there_and_not_when_nobody_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Hesitating()
    asyncio.run(cron_job_access.wait(cluster, (), look_seconds=0))
    assert cluster.steps == []
    assert "whether CronJobs may be read is not known: no answer" in caplog.text
