"""What all parts share: whatever is read, it is understood or refused; what is written comes back."""

import contextlib
import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from disttest_contract import limits
from disttest_contract.gang.plan import InvalidPlanError, RunPlan
from disttest_contract.gang.quarantine import InvalidListError, Matcher, read
from disttest_contract.outcomes import WORST_FIRST, Counts, Outcome, Reason, Verdict, worst
from disttest_contract.results import trimming
from disttest_contract.results.report import InvalidReportError, Report, judge_suites
from disttest_contract.text import formatting
from disttest_contract.transport import frames
from disttest_contract.transport.frames import GZIP, squeeze
from disttest_contract.transport.progress import Failure, Progress
from disttest_contract.transport.termination_message import Summary
from tests.support.builders import strategies as some
from tests.support.reports.report_samples import each
from tests.unit.contract.gang.test_plan import PLAN

NONCE = "00ff00ff"
HEAD = f"{frames.MARK} {NONCE}"
SAMPLE = json.loads(json.dumps(each().to_json()))

frame_lines = st.one_of(
    st.builds(lambda count, digest: f"{HEAD} begin {count} {digest}", st.integers(0, 10**8), some.texts),
    st.builds(lambda count: f"{HEAD} begin {count} {'0' * 64}", st.integers(0, 10**7 - 1)),
    st.builds(lambda number, text: f"{HEAD} {number} {text}", st.integers(0, 5), some.texts),
    st.builds(lambda number: f"{HEAD} {number} AAAA", st.integers(0, 5) | st.sampled_from(["٣", "01", "-1"])),
    st.just(f"{HEAD} end"),
    some.texts,
)


@given(st.lists(frame_lines, max_size=8))
def test_any_lines_give_a_report_or_a_refusal(lines: list[str]) -> None:
    with pytest.raises(frames.FrameError):
        frames.decode("\n".join(lines), NONCE)


@given(st.binary(max_size=20_000), st.lists(some.texts, max_size=5), st.lists(some.texts, max_size=5))
def test_a_report_is_read_from_any_log_as_it_was_written(payload: bytes, before: list[str], after: list[str]) -> None:
    log = "\n".join([*before, *frames.encode(payload, NONCE), *after])
    assert frames.decode(log, NONCE) == payload


@given(st.binary(max_size=300), st.data())
def test_a_log_that_was_changed_anywhere_gives_the_report_or_none_never_another(payload: bytes, data: Any) -> None:
    log = "\n".join(frames.encode(payload, NONCE))
    begin = data.draw(st.integers(0, len(log)))
    end = data.draw(st.integers(begin, len(log)))
    changed = log[:begin] + data.draw(st.just("") | some.texts) + log[end:]
    with contextlib.suppress(frames.FrameError):
        assert frames.decode(changed, NONCE) == payload


@settings(max_examples=50)
@given(some.reports())
def test_a_report_is_read_as_it_was_written(report: Report) -> None:
    read_back = Report.loads(report.dumps())
    assert Report.loads(read_back.dumps()) == read_back, "what was cut once stays as it is"
    assert read_back.counts == report.counts
    assert judge_suites(read_back.suites) == judge_suites(report.suites)


@given(some.spoiled(SAMPLE) | some.json_values)
@example({**SAMPLE, "times": {**SAMPLE["times"], "started": "nan"}})
@example({**SAMPLE, "generations": "9" * 4000})
@example({**SAMPLE, "generations": True})
def test_any_json_is_a_report_or_refused_in_a_sentence(document: Any) -> None:
    report, refusal = some.tried(InvalidReportError, Report.loads, some.as_bytes(document))
    assert len(refusal) <= limits.REPORT_PROBLEM_BYTES
    if report:
        numbers = numbers_of(report.to_json())
        assert all(type(number) in (int, float) and abs(number) <= limits.NUMBER for number in numbers)


def numbers_of(document: Any) -> list[float]:
    places = some.paths(document)
    return [value for place in places if isinstance(value := at(document, place), (int, float)) and not is_flag(place)]


def is_flag(place: some.Path) -> bool:
    return place[-1] in ("quarantined", "sharesGpus")


def at(document: Any, place: some.Path) -> Any:
    for key in place:
        document = document[key]
    return document


HALF_A_PAIR = dataclasses.replace(each(), trimmed="\ud800")


@settings(max_examples=50)
@given(some.reports(), st.sampled_from([2500, 4000, 1 << 20]))
@example(HALF_A_PAIR, 2500)
def test_what_is_cut_fits_and_counts_and_verdict_stay(report: Report, limit_bytes: int) -> None:
    raw, packed, words = trimming.fit(report.to_json(), lambda raw: squeeze(raw, limit_bytes, form=GZIP))
    short = Report.loads(raw)
    assert len(packed) <= limit_bytes
    assert short.trimmed == words.encode(errors="replace").decode()
    assert short.counts == report.counts
    assert judge_suites(short.suites) == judge_suites(report.suites)


@given(st.binary(max_size=5000), st.integers(0, 5000))
def test_what_is_squeezed_is_within_its_limit_or_nothing(payload: bytes, limit_bytes: int) -> None:
    packed = squeeze(payload, limit_bytes)
    assert packed is None or len(packed) <= limit_bytes


@given(st.frozensets(st.integers(0, formatting.MAX_RANKS - 1), max_size=50))
def test_ranks_are_read_as_they_were_written(which: frozenset[int]) -> None:
    assert formatting.read_ranks(formatting.show_ranks(which)) == tuple(sorted(which))


@given(st.text("0123456789,- ٣", max_size=40) | some.texts)
def test_any_text_is_ranks_in_order_or_refused(text: str) -> None:
    found, refusal = some.tried(ValueError, formatting.read_ranks, text)
    assert len(refusal) < 200
    assert found is None or (list(found) == sorted(set(found)) and formatting.count_ranks(text) == len(found))


alphabets = st.lists(st.sampled_from(Outcome), min_size=1, max_size=3)  # of a case, ranks say one thing, or few
outcomes = alphabets.flatmap(lambda few: st.lists(st.sampled_from(few), max_size=12))


@given(outcomes, st.integers(0, 12), st.randoms())
def test_a_case_is_as_good_as_its_worst_rank_in_any_order_of_their_messages(
    said: list[Outcome], ranks_: int, random: Any
) -> None:
    shuffled = list(said)
    random.shuffle(shuffled)
    merged = worst(said, ranks_)
    assert merged is worst(shuffled, ranks_)
    if 0 < ranks_ <= len(said):
        assert merged in said
        assert all(WORST_FIRST.index(merged) <= WORST_FIRST.index(one) for one in said)
    if merged is Outcome.PASSED:
        assert set(said) == {Outcome.PASSED}
        assert len(said) >= ranks_ > 0


@given(outcomes, outcomes)
def test_counts_add_up_in_any_order(one: list[Outcome], other: list[Outcome]) -> None:
    both = Counts.of(one), Counts.of(other)
    assert Counts.sum(both).to_json() == Counts.sum(reversed(both)).to_json() == Counts.of([*one, *other]).to_json()


summaries = st.builds(
    Summary,
    uid=some.names,
    attempt=st.integers(1, 10**6),
    node_index=st.integers(0, 511),
    step=st.sampled_from(("starting", "joining", "running", "finished")),
    verdict=st.none() | st.sampled_from(Verdict),
    reason=st.none() | st.sampled_from(Reason),
    message=some.texts,
    current=some.texts,
    first_failure=some.texts,
    counts=outcomes.map(Counts.of),
    cases_total=st.integers(0, limits.CASES),
)


@given(summaries)
def test_a_termination_message_has_one_page_and_is_read_as_it_was_written(summary: Summary) -> None:
    raw = summary.to_bytes()
    assert len(raw) == limits.TERMINATION_MESSAGE_BYTES
    parsed = Summary.read(raw.decode())
    assert parsed is not None
    same = ("uid", "attempt", "node_index", "step", "verdict", "reason", "counts", "cases_total")
    assert all(getattr(parsed, name) == getattr(summary, name) for name in same)


SUMMARY = json.loads(
    Summary(uid="u", attempt=1, node_index=0, step="running", counts=Counts.of([Outcome.FAILED] * 3)).to_bytes()
)


@given(some.spoiled({"schema": 1, **SUMMARY, "verdict": "Passed", "reason": "AllCasesPassed"}) | some.json_values)
@example({**SUMMARY, "counts": {"passed": int("9" * 300)}})
@example({**SUMMARY, "counts": {"passed": -1}})
@example({**SUMMARY, "casesTotal": "9" * 4000})
def test_any_json_is_a_termination_message_or_none(document: Any) -> None:
    parsed = Summary.read(json.dumps(document))
    if parsed is not None:
        counted = (parsed.attempt, parsed.node_index, parsed.cases_total, *parsed.counts.to_json().values())
        assert all(0 <= number <= limits.NUMBER for number in counted)


@given(some.texts)
def test_any_text_is_a_termination_message_or_none(text: str) -> None:
    Summary.read(text)


progress = st.builds(
    Progress,
    step=st.sampled_from(("joining", "running", "finished")),
    nodes_joined=st.integers(0, 512),
    suite=some.texts,
    current_case=some.texts,
    cases_done=st.integers(0, 10**6),
    counts=outcomes.map(Counts.of),
    failures=st.lists(
        st.builds(Failure, suite=some.texts, case=some.texts, outcome=st.sampled_from(Outcome), message=some.texts),
        max_size=7,
    ).map(tuple),
)


@given(progress)
def test_a_line_of_progress_is_short_and_comes_back(parsed: Progress) -> None:
    line = parsed.to_line(NONCE)
    assert len(line) <= limits.FRAME_LINE_BYTES
    assert "\n" not in line
    reread = Progress.read(line, NONCE)
    assert reread is not None
    assert (reread.step, reread.nodes_joined, reread.cases_done) == (
        parsed.step,
        parsed.nodes_joined,
        parsed.cases_done,
    )
    assert reread.counts == parsed.counts
    assert Progress.read(line, "another") is None


PROGRESS = json.loads(
    Progress(step="running", nodes_joined=2, failures=(Failure(suite="s", case="c", outcome=Outcome.FAILED),) * 2)
    .to_line(NONCE)
    .split(" ", 2)[2]
)


@given(some.spoiled(PROGRESS) | some.json_values)
def test_any_json_behind_the_seal_is_progress_or_none(document: Any) -> None:
    line = Progress(step="x").to_line(NONCE)
    parsed = Progress.read(f"{line[: line.index('{')]}{json.dumps(document)}", NONCE)
    if parsed is not None:
        assert parsed.cases_done >= 0
        assert math.isfinite(parsed.cases_done)


@given(some.spoiled(json.loads(PLAN.to_json())) | some.json_values)
def test_any_json_is_a_plan_or_refused_in_a_sentence(document: Any) -> None:
    plan, refusal = some.tried(InvalidPlanError, RunPlan.from_json, json.dumps(document))
    assert RunPlan.from_json(plan.to_json()) == plan if plan else refusal


@given(some.texts | st.integers(0, 100_000).map(lambda depth: "[" * depth))
def test_any_text_is_a_plan_or_refused(text: str) -> None:
    with pytest.raises(InvalidPlanError):
        RunPlan.from_json(text)


lines = st.lists(some.texts, max_size=6).map("\n".join)


@given(st.dictionaries(st.just("mine") | some.texts, lines | some.json_values, max_size=3), some.texts)
def test_any_config_map_is_a_list_of_known_failures_or_refused(data: dict[str, Any], case_id: str) -> None:
    lists, refusal = some.tried(InvalidListError, read, {"data": data}, ["mine"])
    assert lists is not None or refusal.startswith("key ")
    for patterns in (lists or {}).values():
        assert Matcher(patterns).has(case_id) == bool(Matcher(patterns).which(case_id))
