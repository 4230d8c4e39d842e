from datetime import UTC, datetime

from disttest_operator.core.schedule.expected_runs import Expectation, Outlook
from disttest_operator.metrics import run_collectors
from disttest_operator.metrics.families import Group, in_group

DUE, NEXT = datetime(2026, 11, 20, 1, tzinfo=UTC), datetime(2026, 11, 21, 1, tzinfo=UTC)
NIGHTLY = Expectation(
    namespace="gpu-ci",
    series="nightly",
    due=DUE,
    next=NEXT,
    interval_seconds=86400.0,
    is_suspended=False,
    is_readable=True,
)
SUSPENDED = Expectation(namespace="gpu-ci", series="held", interval_seconds=3600.0, is_suspended=True, is_readable=True)
UNREADABLE = Expectation(namespace="gpu-ci", series="odd", is_suspended=False, is_readable=False)


def test_the_families_are_those_of_the_table_and_what_is_not_known_is_absent() -> None:
    seen = {
        family.name: {sample.labels["series"]: sample.value for sample in family.samples}
        for family in run_collectors.schedules([NIGHTLY, SUSPENDED, UNREADABLE])
    }
    assert seen == {
        "disttest_schedule_due_timestamp_seconds": {"nightly": DUE.timestamp()},
        "disttest_schedule_next_timestamp_seconds": {"nightly": NEXT.timestamp()},
        "disttest_schedule_interval_seconds": {"nightly": 86400, "held": 3600},
        "disttest_schedule_suspended": {"nightly": 0, "held": 1, "odd": 0},
        "disttest_schedule_readable": {"nightly": 1, "held": 1, "odd": 0},
    }


def test_every_family_of_the_group_has_its_type_meaning_and_labels() -> None:
    made = list(run_collectors.schedules([NIGHTLY]))
    rows = list(in_group(Group.SCHEDULE))
    assert [(one.name, one.type, one.documentation) for one in made] == [
        (row.full_name, row.type, row.meaning) for row in rows
    ]
    for one in made:
        assert [sample.labels for sample in one.samples] == [{"namespace": "gpu-ci", "series": "nightly"}]


def test_without_schedules_there_is_no_sample() -> None:
    assert [sample for family in run_collectors.schedules([]) for sample in family.samples] == []


def test_omitted_series_are_counted_by_family() -> None:
    assert run_collectors.cut(Outlook(expected=(NIGHTLY,))) == {}
    assert run_collectors.cut(Outlook(expected=(NIGHTLY,), cut=7)) == {
        row.full_name: 7 for row in in_group(Group.SCHEDULE)
    }
