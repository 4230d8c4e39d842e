"""Cases that were asked for by their ids."""

import pytest

from disttest_runner.cases import collection

COLLECTED = A, B1, B2 = "test_it.py::test_a", "test_it.py::test_b[1]", "test_it.py::test_b[2]"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ((), ""),
        (COLLECTED, ""),
        (("test_it.py::test_b[1]", "test_it.py::test_b[1]"), ""),
        (
            ("tests/test_it.py::test_a",),
            f"the suite has no case tests/test_it.py::test_a: did you mean {A}?",
        ),
        (("test_it.py::test_b",), f"the suite has no case test_it.py::test_b: did you mean {B1} or {B2}?"),
        (("test_it.py::test",), f"the suite has no case test_it.py::test: did you mean {A} or {B1} or {B2}?"),
        (("other.py::test_b",), f"the suite has no case other.py::test_b: did you mean {B1} or {B2}?"),
        (("test_it.py::tost_a",), f"the suite has no case test_it.py::tost_a: did you mean {A} or {B2} or {B1}?"),
        (("x",), "the suite has no case x: it has 3, the first is test_it.py::test_a"),
        (
            ("x", COLLECTED[0], "y"),
            f"the suite has no case x: it has 3, the first is {A}; the suite has no case y: it has 3, the first is {A}",
        ),
    ],
)
def test_a_case_that_does_not_exist_is_named_with_those_that_are_near(wanted: tuple[str, ...], sentence: str) -> None:
    assert collection.missing_cases(COLLECTED, wanted) == sentence


def test_of_many_cases_that_begin_alike_three_are_named_and_the_others_counted() -> None:
    said = collection.missing_cases([f"a.py::test_b[{number}]" for number in range(9)], ["a.py::test_b"])
    assert said == (
        "the suite has no case a.py::test_b: did you mean a.py::test_b[0] or a.py::test_b[1] or a.py::test_b[2]? "
        "(6 more with this start)"
    )


def test_a_sentence_on_many_cases_stays_short() -> None:
    said = collection.missing_cases((), [f"case {number} {'x' * 5000}" for number in range(50)])
    assert said.endswith(": it has none; and 47 more that do not exist")
    assert len(said.encode()) < 1000
