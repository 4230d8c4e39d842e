"""A test that is expected to fail does so if it fails on one rank; torch's harness counts like that."""

import sys
import unittest
from datetime import timedelta

import pytest

from disttest_runner.upstream import rules


class FakeStore:
    def __init__(self, **known: str) -> None:
        self.known = {name.removeprefix("rank"): value for name, value in known.items()}

    def set(self, name: str, value: str) -> None:
        self.known[name] = value

    def get(self, name: str) -> bytes:
        return self.known[name].encode()

    def wait(self, names: list[str], timeout: timedelta) -> None:
        assert timeout == timedelta(seconds=9)
        assert self.known.keys() >= set(names)


class Cases(unittest.TestCase):
    __test__ = False  # played below

    @unittest.expectedFailure
    def test_bad(self) -> None:
        raise ValueError

    def test_good(self) -> None:
        pass


def run(method: str, store: FakeStore) -> None:
    rules.run_expected_failure(getattr(Cases(method), method), store, rank=0, world_size=2, seconds=9)


def test_a_rank_that_failed_says_so_and_does_not_wait() -> None:
    store = FakeStore()
    with pytest.raises(ValueError):  # noqa: PT011 - the test's own
        run("test_bad", store)
    assert store.known == {"0": "failed"}


def test_a_rank_that_came_through_fails_with_another_that_did_not() -> None:
    with pytest.raises(AssertionError, match="on rank 1"):
        run("test_good", FakeStore(rank1="failed"))


def test_where_all_come_through_the_success_is_unexpected() -> None:
    run("test_good", FakeStore(rank1="well"))


def test_a_rank_that_left_well_came_through() -> None:
    store = FakeStore(rank1="well")
    rules.run_expected_failure(lambda: sys.exit(0), store, rank=0, world_size=2, seconds=9)
    assert store.known["0"] == "well"


def test_the_decorator_is_seen_on_the_method() -> None:
    assert rules.is_expected(Cases("test_bad").test_bad)
    assert not rules.is_expected(Cases("test_good").test_good)
