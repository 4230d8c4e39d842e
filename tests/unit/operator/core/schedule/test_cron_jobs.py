from datetime import UTC, datetime
from typing import Any

import pytest

from disttest_operator.core.schedule.expected_runs import MAX_ALLOWANCE_SECONDS, CronJobView, cron_job
from tests.support.builders.cron_jobs import CREATED, cron_job_body, written

MADE = datetime.fromisoformat(CREATED)
LATER = "2026-11-15T12:00:00Z"
SERIES = "disttest.dev/series"


def view(body: dict[str, Any], before: CronJobView | None = None) -> CronJobView:
    read = cron_job(body, before)
    assert read is not None
    return read


def managed(*entries: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = cron_job_body(**spec)
    body["metadata"]["managedFields"] = list(entries)
    return body


def a_job(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {}}} | spec}


def test_what_says_when_it_runs_is_kept() -> None:
    read = view(cron_job_body(schedule="30 2 * * 1-5", timeZone="Europe/Berlin", suspend=True))
    assert (read.namespace, read.name, read.series) == ("gpu-ci", "nightly", "nightly")
    assert (read.schedule, read.time_zone, read.is_suspended) == ("30 2 * * 1-5", "Europe/Berlin", True)
    assert (read.allowance_seconds, read.expects_since) == (6 * 3600, MADE)


def test_without_a_zone_and_suspend_it_has_none_and_is_not() -> None:
    body = cron_job_body()
    del body["spec"]["suspend"]
    assert (view(body).time_zone, view(body).is_suspended) == ("", False)


@pytest.mark.parametrize("series", [None, ""], ids=["no label", "an empty one"])
def test_a_cronjob_that_names_no_series_is_not_kept(series: str | None) -> None:
    assert cron_job(cron_job_body(series=series)) is None


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 6 * 3600),
        ({"startingDeadlineSeconds": 3600}, 7 * 3600),
        ({"startingDeadlineSeconds": 600, "jobTemplate": a_job(activeDeadlineSeconds=7200)}, 7800),
        ({"jobTemplate": a_job(activeDeadlineSeconds=60)}, 60),
        ({"jobTemplate": a_job(activeDeadlineSeconds=2**62)}, MAX_ALLOWANCE_SECONDS),
        ({"jobTemplate": {}}, 6 * 3600),
    ],
    ids=["none", "to start", "both", "of the Job", "beyond all dates", "an empty template"],
)
def test_a_run_has_as_long_as_it_may_start_late_and_its_job_may_last(spec: dict[str, Any], seconds: int) -> None:
    assert view(cron_job_body(**spec)).allowance_seconds == seconds


@pytest.mark.parametrize(
    ("entry", "is_decisive"),
    [
        (written(LATER, "schedule"), True),
        (written(LATER, "suspend"), True),
        (written(LATER, "timeZone", "jobTemplate"), True),
        (written(LATER, label=SERIES), True),
        (written(LATER, "jobTemplate", "concurrencyPolicy"), False),
        (written(LATER, label="app"), False),
        (written(LATER, "schedule", subresource="status"), False),
        (written("9999-01-01T00:00:00Z", "schedule"), False),
        ({"manager": "old", "operation": "Update"}, False),
    ],
    ids=["schedule", "suspend", "zone", "series", "other fields", "other labels", "status", "no time", "empty"],
)
def test_expectations_start_with_the_last_change_of_the_schedule(
    entry: dict[str, Any],
    is_decisive: bool,  # noqa: FBT001  # a column of the table
) -> None:
    since = datetime.fromisoformat(LATER) if is_decisive else MADE
    assert view(managed(entry)).expects_since == since


def test_the_latest_of_several_writers_counts() -> None:
    entries = (written("2026-11-03T00:00:00Z", "suspend"), written(LATER, "schedule"))
    assert view(managed(*entries)).expects_since == datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_a_new_image_does_not_excuse_the_night_before() -> None:
    """One manager wrote schedule and image; the time of its whole entry is then that of the image."""
    before = view(managed(written("2026-11-03T00:00:00Z", "schedule", "jobTemplate")))
    after = view(managed(written(LATER, "schedule", "jobTemplate")), before)
    assert after.expects_since == before.expects_since


@pytest.mark.parametrize(
    "spec",
    [{"suspend": True}, {"schedule": "0 2 * * *"}, {"timeZone": "Asia/Tokyo"}, {"series": "another"}],
    ids=lambda spec: next(iter(spec)),
)
def test_a_change_of_the_schedule_restarts_its_expectations(spec: dict[str, Any]) -> None:
    entry = written(LATER, "schedule", "suspend", "timeZone", label=SERIES)
    assert view(managed(entry, **spec), view(cron_job_body())).expects_since > MADE
