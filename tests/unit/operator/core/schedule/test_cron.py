"""Cron expressions, against the results of Kubernetes' own parser.

tests/data/schedules.jsonl holds answers of github.com/robfig/cron/v3 v3.0.1 (ParseStandard and three times Next, with
the time zone in front as the CronJob controller puts it there), one JSON object a line. Besides these, 30,000 random
expressions in ten time zones were compared once: no difference. Where clocks change at midnight or by half an hour
(Cairo, Beirut, Lord Howe) that parser loses its way on the day of the change; this one does not.
"""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from disttest_operator.core.schedule import cron
from tests.support.paths import TESTS

ROWS = [json.loads(line) for line in (TESTS / "data/schedules.jsonl").read_text().splitlines()]
SECOND = timedelta(seconds=1)
UTC_ZONE = ZoneInfo("UTC")


def words(row: dict[str, Any]) -> str:
    return "-".join(filter(None, (row["schedule"], row.get("zone"), row.get("from"))))


def nexts(row: dict[str, Any]) -> list[datetime]:
    read, where, moment = cron.parse(row["schedule"]), cron.zone(row["zone"]), datetime.fromisoformat(row["from"])
    found: list[datetime] = []
    for _ in range(3):
        after = cron.around(read, where, moment)[1]
        if after is None:
            break
        found.append(after)
        moment = after
    return found


@pytest.mark.parametrize("row", [row for row in ROWS if "next" in row], ids=words)
def test_the_next_times_are_those_of_kubernetes(row: dict[str, Any]) -> None:
    assert nexts(row) == [datetime.fromisoformat(text) for text in row["next"]]


@pytest.mark.parametrize("row", [row for row in ROWS if "next" in row], ids=words)
def test_the_last_time_is_the_one_before_the_next(row: dict[str, Any]) -> None:
    read, where, times = cron.parse(row["schedule"]), cron.zone(row["zone"]), nexts(row)
    for before, after in itertools.pairwise(times):
        for moment in (before, before + SECOND, after - SECOND):
            assert cron.around(read, where, moment) == (before, after)


@pytest.mark.parametrize("row", [row for row in ROWS if "error" in row], ids=words)
def test_what_kubernetes_refuses_is_refused_with_a_sentence(row: dict[str, Any]) -> None:
    with pytest.raises(cron.InvalidScheduleError, match=r": .+"):
        cron.parse(row["schedule"])


def test_the_table_has_both_kinds_of_rows() -> None:
    assert len([row for row in ROWS if "next" in row]) >= 100
    assert len([row for row in ROWS if "error" in row]) >= 30


def test_every_is_not_supported_since_its_times_depend_on_the_controller() -> None:
    with pytest.raises(cron.InvalidScheduleError, match="write five fields, or one of @yearly"):
        cron.parse("@every 24h")


@pytest.mark.parametrize("text", ["TZ=Europe/Berlin 0 1 * * *", "CRON_TZ=UTC 0 1 * * *"])
def test_a_zone_within_the_schedule_is_not_read(text: str) -> None:
    """Kubernetes refuses it too, but for CronJobs of old."""
    with pytest.raises(cron.InvalidScheduleError):
        cron.parse(text)


@pytest.mark.parametrize("name", ["Europe/Berlim", "Europe", "Local", "../etc/passwd", "/etc/localtime", "Mars\x00"])
def test_a_zone_that_is_none_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(cron.InvalidScheduleError, match="write one like Europe/Berlin"):
        cron.zone(name)


def test_without_a_zone_times_are_utc() -> None:
    assert cron.zone("") == UTC_ZONE


def test_a_day_that_never_comes_has_neither_a_last_nor_a_next_time() -> None:
    assert cron.around(cron.parse("0 0 31 2 *"), UTC_ZONE, datetime(2026, 11, 21, tzinfo=UTC)) == (None, None)


def test_a_leap_day_is_found_in_both_directions() -> None:
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    found = cron.around(cron.parse("0 1 29 2 *"), UTC_ZONE, moment)
    assert found == (datetime(2024, 2, 29, 1, tzinfo=UTC), datetime(2028, 2, 29, 1, tzinfo=UTC))
