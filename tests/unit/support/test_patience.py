"""Deadlines of tests follow the load of the machine."""

import pytest

from tests.support import patience


@pytest.mark.parametrize(
    ("load", "runnable", "cores", "times"),
    [
        (0.1, 1, 2, 1.0),
        (4.0, 4, 2, 1.0),
        (15.0, 2, 2, 3.75),
        (0.5, 16, 2, 4.0),
        (15.0, 15, 16, 1.0),
        (900.0, 1, 2, 10.0),
    ],
    ids=["idle", "tests alone", "busy for a minute", "busy since now", "many cores", "bounded"],
)
def test_work_takes_as_many_times_longer_as_processes_want_a_core(
    load: float, runnable: int, cores: int, times: float
) -> None:
    assert patience.times_slower(load, runnable, cores) == times


def test_a_deadline_passes_later_where_the_machine_is_slower() -> None:
    now = [0.0]
    deadline = patience.Deadline(10, now=lambda: now[0])
    now[0] = 9
    assert not deadline.has_passed(lambda: 1.0)
    now[0] = 12
    assert not deadline.has_passed(lambda: 4.0), "three seconds were worth less than one"
    now[0] = 13
    assert deadline.has_passed(lambda: 1.0)


def test_what_never_comes_fails_with_what_was_waited_for() -> None:
    with pytest.raises(pytest.fail.Exception, match="the moon is green; last seen: 0\nit is grey"):
        patience.wait_until("the moon is green", lambda: 0, 0, details=lambda: "it is grey")


def test_the_first_true_value_is_what_comes_back() -> None:
    values = iter((None, 0, "here", "later"))
    assert patience.wait_until("a value", lambda: next(values), 10) == "here"
