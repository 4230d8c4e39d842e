"""The size of a report: whether it is too large for its readers, and what is omitted to make it fit.

The same rules apply to the leader's log and to a ConfigMap. Each is applied on top of those before it until the report
fits, the least informative parts first; `trimmed` lists in words what was done. Counts and verdict do not change:
dropped cases are counted in `leftOut` of their suite. The last resort always fits. Pure; works on the JSON.
"""

import bisect
import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.text import formatting

Json = dict[str, Any]
T = TypeVar("T")

WIDE_CHARACTER = re.compile(rb"[\xf0-\xf4]")  # starts a character for which Python stores the whole text as UCS-4
CONTINUATION = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that start no character
STACK_BYTES = 1024
RANK_MESSAGE_BYTES = 256
RANKS = 16
NODES = 8
MEASUREMENTS = 256  # of the whole report
SHORT_WORDS = ("transport", "network")  # of the transport, in the last resort
SENTENCES = ("summary", "artifacts")  # of a diagnosis
BY_RANK = "byRank"
BY_ONE_RANK = frozenset({"stacks", "logs"})
TRIMMED = "trimmed"
BAD_WORDS = frozenset(outcome.value for outcome in BAD)
BETWEEN = "; "
# Of the last resort.
MESSAGE_BYTES = 160  # of a case
NAME_CHARACTERS = 253
WORD_CHARACTERS = 64
VERSIONS = 16
HEAD = "all but"
KEPT = ("id", "outcome", "seconds", "at", "measurements", "quarantined", "signal", "exitCode")


def excess_of_text(raw: bytes) -> str:
    """Describe what is too large in UTF-8 that has not been parsed; empty if nothing is.

    Memory counts as well as bytes: Python stores a text at the width of its widest character.
    """
    if len(raw) > limits.REPORT_BYTES:
        return f"has {len(raw)} bytes, more than {limits.REPORT_BYTES}"
    if (size := _text_bytes(raw)) > limits.REPORT_BYTES:
        return f"has {size} bytes as a Python string, more than {limits.REPORT_BYTES}"
    if (count := sum(map(raw.count, (b",", b"[", b"{")))) > limits.REPORT_VALUES:
        return f"has {count} commas and brackets, more than {limits.REPORT_VALUES}"
    return ""


def _text_bytes(raw: bytes) -> int:
    if raw.isascii():
        return len(raw)
    return len(raw.translate(None, CONTINUATION)) * (4 if WIDE_CHARACTER.search(raw) else 2)


def excess_of_cases(report: Json) -> str:
    """Describe what is too large in the parsed report. Raises LookupError, TypeError or ValueError for wrong types."""
    if (cases := sum(len(suite["cases"]) for suite in report["suites"])) > limits.CASES:
        return f"has {cases} cases, more than {limits.CASES}. Split it into several runs"
    groups = (group["ranks"] for case in _cases(report) for group in case.get(BY_RANK, ()))
    if (named := sum(map(formatting.count_ranks, groups))) > limits.REPORT_RANKS:
        return f"names {named} ranks in byRank, more than {limits.REPORT_RANKS}"
    return ""


def fit(report: Json, pack: Callable[[bytes], T | None]) -> tuple[bytes, T, str]:
    """Return the report's bytes, what `pack` made of them, and what was left out, in words.

    `pack` returns None for what is too large. The report is changed. Raises ValueError if `pack` refuses even a few
    hundred KiB.
    """
    said = str(report.pop(TRIMMED, ""))
    raw = dumps(_with_trimmed(report, said))
    if (packed := _packed(report, raw, pack)) is not None:
        return raw, packed, said
    size = len(raw) - _bytes(said) + (0 if said else len(f',"{TRIMMED}":""'))
    for words, rule in RULES:
        rule(report)
        more = _joined(said, words)
        raw = dumps(_with_trimmed(report, more))
        size, size_before = len(raw) - _bytes(more), size
        if size == size_before:
            continue  # the rule found nothing to cut
        said = more
        if (packed := _packed(report, raw, pack)) is not None:
            return raw, packed, said
    return _last_resort(report, said, pack)


def _bytes(words: str) -> int:
    """Return the size in `dumps`: an earlier trimming can have left words in any alphabet."""
    return len(words.encode(errors="replace"))


def _last_resort(report: Json, said: str, pack: Callable[[bytes], T | None]) -> tuple[bytes, T, str]:
    """Keep as many cases as fit, and of everything else a part with an upper bound."""
    shortest = Shortest(report)

    def attempt(count: int) -> tuple[bytes, T, str] | None:
        words = _joined(limits.cut(said, limits.MESSAGE_BYTES), f"{HEAD} {count} cases, facts about nodes")
        short = shortest.with_cases(count)
        raw = dumps(_with_trimmed(short, words))
        packed = _packed(short, raw, pack)
        return None if packed is None else (raw, packed, words)

    too_many = bisect.bisect_left(range(shortest.most + 1), True, key=lambda count: attempt(count) is None)
    if (best := attempt(too_many - 1) if too_many else None) is None:
        raise ValueError("the report exceeds the size limit even without cases")
    return best


def dumps(report: Json) -> bytes:
    return json.dumps(report, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def _packed(report: Json, raw: bytes, pack: Callable[[bytes], T | None]) -> T | None:
    """Return None as well if no reader would accept the report."""
    return None if excess_of_text(raw) or excess_of_cases(report) else pack(raw)


def _with_trimmed(report: Json, words: str) -> Json:
    return {**report, TRIMMED: words} if words else report


def _joined(said: str, words: str) -> str:
    parts = said.split(BETWEEN) if said else []
    if words.startswith(HEAD):  # it replaces what an earlier trimming kept
        parts = [part for part in parts if not part.startswith(HEAD)]
    return BETWEEN.join(parts if words in parts else [*parts, words])


class Shortest:
    """The last resort: a copy of the report with a chosen number of its `most` cases."""

    def __init__(self, report: Json) -> None:
        self._base = _base(report)
        self._cases = [[_bare(case) for case in suite["cases"]] for suite in self._base["suites"]]
        places = [
            (_priority(case), number, index)
            for index, each in enumerate(self._cases)
            for number, case in enumerate(each)
        ]
        self._places = sorted(places)
        self.most = len(places)

    def with_cases(self, count: int) -> Json:
        """Keep the most informative cases, in order; the others are counted."""
        kept: list[list[int]] = [[] for _ in self._cases]
        for _, number, index in self._places[:count]:
            kept[index].append(number)
        suites = []
        for suite, cases, numbers in zip(self._base["suites"], self._cases, kept, strict=True):
            short = {**suite, "cases": cases}
            if "leftOut" in suite:
                short["leftOut"] = copy.deepcopy(suite["leftOut"])
            _keep(short, [cases[number] for number in sorted(numbers)])
            suites.append(short)
        return {**self._base, "suites": suites}


def _priority(case: Json) -> int:
    """Rank a case: measurements first, then quarantined and flaky cases, then failed and interrupted ones."""
    if "measurements" in case:
        return 0
    if case.get("quarantined") or "earlier" in case:
        return 1
    return 2 if _is_bad(case) or _is_interrupted(case) else 3


def _bare(case: Json) -> Json:
    short = {key: case[key] for key in KEPT if key in case}
    if "message" in case:
        short["message"] = limits.cut_middle(case["message"], MESSAGE_BYTES)
    if "earlier" in case:
        short["earlier"] = [{key: one[key] for key in ("outcome", "seconds")} for one in case["earlier"]]
    return short


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= WORD_CHARACTERS


def _base(report: Json) -> Json:
    """Bound everything but the cases; names longer than any real one are forged."""
    run, world = report["run"], report["world"]
    used = report.get("transport", {}).get("used", {})
    return {
        **report,
        "run": {key: value[:NAME_CHARACTERS] if isinstance(value, str) else value for key, value in run.items()},
        "world": {**world, "nodeNames": [name[:NAME_CHARACTERS] for name in world["nodeNames"][: limits.NODES]]},
        **{
            name: {key[:WORD_CHARACTERS]: value[:WORD_CHARACTERS] for key, value in list(words.items())[:VERSIONS]}
            for name in ("versions", "settings")
            if (words := report.get(name)) is not None
        },
        "message": limits.cut(report["message"], limits.FAILURE_MESSAGE_BYTES),
        "suites": [
            {
                **suite,
                "name": suite["name"][:NAME_CHARACTERS],
                "message": limits.cut(suite["message"], limits.FAILURE_MESSAGE_BYTES),
            }
            for suite in report["suites"][: limits.SUITES]
        ],
        **(
            {"transport": {"used": {key: used[key] for key in SHORT_WORDS if _is_short(used.get(key))}}} if used else {}
        ),
        "preflight": [],
        "atFault": [index for index in report["atFault"] if 0 <= index < limits.NODES][: limits.NODES],
        "thresholds": report["thresholds"][: limits.THRESHOLDS],
    }


def _cases(report: Json) -> Iterator[Json]:
    return (case for suite in report["suites"] for case in suite["cases"])


def _is_bad(case: Mapping[str, Any]) -> bool:
    return case["outcome"] in BAD_WORDS


def _is_interrupted(case: Mapping[str, Any]) -> bool:
    return case["outcome"] == Outcome.NOT_RUN and "at" in case


def _keep(suite: dict[str, Any], kept: Sequence[Mapping[str, Any]]) -> None:
    """Keep only these of the suite's case objects and count the others; works on JSON, in place."""
    kept_ids, counted = {id(case) for case in kept}, suite.setdefault("leftOut", {})
    for case in suite["cases"]:
        if id(case) not in kept_ids:
            _count_case(counted, case)
    suite["cases"] = list(kept)
    if not counted:
        del suite["leftOut"]


def _count_case(counted: dict[str, Any], case: Mapping[str, Any]) -> None:
    outcome = case["outcome"]
    keys = ("counts", "quarantined") if _is_bad(case) and case.get("quarantined") is True else ("counts",)
    for key in keys:
        numbers = counted.setdefault(key, {})
        numbers[outcome] = numbers.get(outcome, 0) + 1
    if outcome == Outcome.PASSED and any(map(_is_bad, case.get("earlier", ()))):
        counted["flaky"] = counted.get("flaky", 0) + 1


def _cut_good_messages(report: Json) -> None:
    for case in _cases(report):
        if not (_is_bad(case) or _is_interrupted(case)):
            case.pop("message", None)
            for group in case.get(BY_RANK, ()):
                group.pop("message", None)


def _cut_stacks(report: Json) -> None:
    for case in _cases(report):
        for name in BY_ONE_RANK & case.keys():
            case[name] = {rank: limits.cut(text, STACK_BYTES) for rank, text in case[name].items()}
        if "diagnosis" in case:
            case["diagnosis"] = {key: case["diagnosis"][key] for key in SENTENCES if key in case["diagnosis"]}


def _cut_ranks(report: Json) -> None:
    for case in _cases(report):
        for one in (case, *case.get("earlier", ())):
            if "ranks" in one:
                one["ranks"] = one["ranks"][:RANKS]
            if "nodes" in one:
                one["nodes"] = one["nodes"][:NODES]
        for group in case.get(BY_RANK, ()):
            if "message" in group:
                group["message"] = limits.cut_middle(group["message"], RANK_MESSAGE_BYTES)


def _cut_messages(report: Json) -> None:
    for case in _cases(report):
        for name in BY_ONE_RANK:
            case.pop(name, None)
        for group in case.get(BY_RANK, ()):
            group.pop("message", None)
        for one in (case, *case.get("earlier", ())):
            if "message" in one:
                one["message"] = limits.cut_middle(one["message"], limits.FAILURE_MESSAGE_BYTES)
        if not case.get("quarantined"):  # its pattern must still match
            case["id"] = limits.cut_id(case["id"])


def _cut_measurements(report: Json) -> None:
    """Keep what thresholds are judged by: the slowest of each kind, those with a threshold first."""
    slowest: dict[tuple[str, str, int], Json] = {}
    for case in _cases(report):
        for one in case.get("measurements", ()):
            key = (one["collective"], one["dtype"], one["sizeBytes"])
            if key not in slowest or one["busBandwidthBytesPerSecond"] < slowest[key]["busBandwidthBytesPerSecond"]:
                slowest[key] = one
    asked = {(one["collective"], one["sizeBytes"]) for one in report.get("thresholds", ())}
    ranked = sorted(slowest, key=lambda key: ((key[0], key[2]) not in asked, key))
    kept = {id(slowest[key]) for key in ranked[:MEASUREMENTS]}
    for case in _cases(report):
        if left := [one for one in case.pop("measurements", ()) if id(one) in kept]:
            case["measurements"] = left


def _drop_good_cases(report: Json) -> None:
    def is_kept(case: Json) -> bool:
        return _is_bad(case) or _is_interrupted(case) or bool(case.keys() & {"earlier", "measurements"})

    for suite in report["suites"]:
        _keep(suite, [case for case in suite["cases"] if is_kept(case)])


# What is left out, in words, and how; users find the table in the runner's documentation.
RULES: tuple[tuple[str, Callable[[Json], None]], ...] = (
    ("messages of cases that did not fail", _cut_good_messages),
    (f"stacks and logs beyond {STACK_BYTES} bytes, and details of diagnoses except for the summary", _cut_stacks),
    (
        f"ranks beyond {RANKS} and nodes beyond {NODES} of a case, messages of ranks beyond {RANK_MESSAGE_BYTES} bytes",
        _cut_ranks,
    ),
    (f"stacks, logs, messages of ranks, other messages beyond {limits.FAILURE_MESSAGE_BYTES} bytes", _cut_messages),
    ("measurements except for the slowest of each collective, type and size", _cut_measurements),
    ("cases that did not fail", _drop_good_cases),
)
