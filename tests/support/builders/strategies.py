"""Unexpected inputs: hostile texts, JSON of any shape, and valid objects with an invalid part."""

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from hypothesis import strategies as st

from disttest_contract.outcomes import BAD, Outcome, Reason
from disttest_contract.results.case_result import CaseResult, Earlier, RankEnding, RankGroup
from disttest_contract.results.measurement import COLLECTIVES, DTYPES, Measurement
from disttest_contract.results.report import LeftOut, Report, SuiteResult, judge_cases
from tests.support.builders.runs import a_report

T = TypeVar("T")
Path = tuple[str | int, ...]
NASTY = (
    "",
    "\x00\x1b[2J\x9b31m\x7f",
    "\ud800",
    "\u202e\u2066\ufeff",
    "\r\n" * 50,
    "</script><script>&]]>",
    "{{ 7 * 7 }}",
    "../../etc/passwd",
    "x" * 5000,
    "\U0001f4a5" * 2000,
    "-1",
    "1e999",
    "nan",
    "9" * 4000,
    "0-65535",
    "*",
)
# Numbers that are no numbers for some reader: too large, negative, halves, none at all, truths.
ODD_NUMBERS = (0, -1, 2**31, 2**63, -(2**63) - 1, 10**18, 10**300, 0.5, -0.0, 1e308, float("inf"), float("nan"), True)

texts = st.one_of(st.sampled_from(NASTY), st.text(st.characters(), max_size=40))  # halves of surrogate pairs too
numbers = st.one_of(st.sampled_from(ODD_NUMBERS), st.integers(), st.floats())
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
# Of DistTests: labels of DNS-1035, as often as not of the greatest length.
names = st.from_regex(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?|[a-z][-a-z0-9]{50}[a-z0-9]", fullmatch=True)
noise = st.integers(0, 2**32).map(lambda seed: random.Random(seed).randbytes(150).hex())  # noqa: S311  # does not shrink
chunks = st.lists(st.integers(1, 200), max_size=20)  # sizes of what comes at once


def paths(document: Any, here: Path = ()) -> Iterator[Path]:
    """All places of a JSON document but the whole of it."""
    inside = document.items() if isinstance(document, Mapping) else enumerate(document)
    for key, value in inside:
        yield (*here, key)
        if isinstance(value, (Mapping, list)):
            yield from paths(value, (*here, key))


@st.composite
def spoiled(draw: st.DrawFn, document: Mapping[str, Any]) -> Any:
    """The document with one to three of its places gone, or holding something else, or twice in their list."""
    spoilt: Any = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(paths(spoilt))
        if not places:
            break
        *way, last = draw(st.sampled_from(places))
        parent = spoilt
        for key in way:
            parent = parent[key]
        match draw(st.sampled_from(("gone", "other", "other", "twice"))):
            case "gone":
                del parent[last]
            case "twice" if isinstance(last, int):
                parent.append(parent[last])
            case _:
                parent[last] = draw(json_values)
    return spoilt


def tried(refusal: type[Exception], function: Callable[..., T], *args: Any) -> tuple[T | None, str]:
    """What came of it, or the sentence that refuses it."""
    try:
        return function(*args), ""
    except refusal as error:
        return None, str(error) or "says nothing"


def as_bytes(document: Any) -> bytes:
    """JSON as Python writes it: with NaN and infinity, and halves of pairs escaped."""
    return json.dumps(document).encode()


# --- what a runner may report

few = st.sampled_from((Outcome.PASSED, Outcome.FAILED))
seconds = st.floats(0, 1e6)
rank_sets = st.frozensets(st.integers(0, 511), max_size=8).map(lambda some: tuple(sorted(some)))
earlier = st.builds(Earlier, outcome=st.sampled_from(Outcome), seconds=seconds, message=texts, ranks=rank_sets)
groups = st.builds(RankGroup, ranks=rank_sets, ending=st.sampled_from(RankEnding), message=texts)
measurements = st.builds(
    Measurement,
    collective=st.sampled_from(COLLECTIVES),
    dtype=st.sampled_from(DTYPES),
    size_bytes=st.integers(1, 1 << 40),
    ranks=st.integers(1, 512),
    iterations=st.integers(1, 100),
    seconds=seconds,
    fastest_rank_seconds=seconds,
    slowest_rank_seconds=seconds,
    slowest_rank=st.integers(0, 511),
    alg_bytes_per_second=st.floats(0, 1e12),
    bus_bandwidth_bytes_per_second=st.floats(0, 1e12),
    wrong_elements=st.integers(0, 100),
)
cases = st.builds(
    CaseResult,
    id=texts,
    outcome=st.sampled_from(Outcome),
    seconds=seconds,
    at=st.none() | seconds,
    message=texts,
    ranks=rank_sets,
    nodes=st.lists(texts | st.just("n" * 300), max_size=20).map(tuple),
    by_rank=st.lists(groups, max_size=3).map(tuple),
    signal=texts,
    exit_code=st.none() | st.integers(-128, 255),
    stacks=st.dictionaries(st.integers(0, 511), texts, max_size=3),
    logs=st.dictionaries(st.integers(0, 511), texts, max_size=3),
    earlier=st.lists(earlier, max_size=2).map(tuple),
    measurements=st.lists(measurements, max_size=3).map(tuple),
    quarantined=st.booleans(),
)


@st.composite
def left_outs(draw: st.DrawFn) -> LeftOut:
    counts = draw(st.dictionaries(st.sampled_from(Outcome), st.integers(1, 10_000), max_size=4))
    excused = {outcome: draw(st.integers(1, count)) for outcome, count in counts.items() if outcome in BAD}
    flaky = draw(st.integers(0, counts.get(Outcome.PASSED, 0)))
    return LeftOut(by_outcome=counts, excused=excused if draw(st.booleans()) else {}, flaky=flaky)


@st.composite
def suites(draw: st.DrawFn, name: st.SearchStrategy[str] = texts) -> SuiteResult:
    of_suite = tuple(draw(st.lists(cases, max_size=3)))
    if draw(st.booleans()):  # enough to exceed the limit
        more = draw(
            st.lists(st.builds(CaseResult, id=noise, outcome=few, seconds=st.just(1.0)), min_size=20, max_size=20)
        )
        of_suite += tuple(more)
    verdict, _ = judge_cases(of_suite)
    return SuiteResult(
        name=draw(name),
        verdict=verdict,
        reason=draw(st.sampled_from(Reason)),
        message=draw(texts),
        seconds=draw(seconds),
        cases=of_suite,
        left_out=draw(left_outs()),
    )


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Of the run that unit tests have, as a runner could have written it."""
    of_run = tuple(draw(st.lists(suites(st.just("collectives") | texts), max_size=2)))
    verdict, reason = judge_cases(case for suite in of_run for case in suite.cases)
    return a_report(
        suites=of_run,
        verdict=verdict,
        reason=reason,
        message=draw(texts),
        trimmed=draw(st.just("cases that did not fail") | texts.filter(bool)),
        at_fault=draw(rank_sets),
        versions=draw(st.dictionaries(texts, texts, max_size=3)),
        node_names=tuple(draw(st.lists(texts, max_size=3))),
        joined=draw(st.none() | seconds),
    )
