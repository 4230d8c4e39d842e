"""What is left out of a report that is too large: the same rules for the leader's log and for a ConfigMap.

Each rule is applied on top of those before it, until the report fits; what tells least goes first. `trimmed` says in
words what was done. Counts and verdict stay: cases that go are counted in `leftOut` of their suite. The last rule
always comes to something that fits. Pure; on the JSON, which is what has a size.
"""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from disttest_contract import limits
from disttest_contract.results import bounds, left_out
from disttest_contract.results.left_out import is_bad, is_interrupted

Json = dict[str, Any]

MESSAGE_BYTES = 160  # of a case
NAME_CHARACTERS = 253
WORD_CHARACTERS = 64
VERSIONS = 16
HEAD = "all but"
KEPT = ("id", "outcome", "seconds", "at", "measurements", "quarantined", "signal", "exitCode")


def cases_words(count: int) -> str:
    return f"{HEAD} {count} cases, what is known of nodes"


class Shortest:
    """`most` is how many cases there are. The report stays as it is."""

    def __init__(self, report: Json) -> None:
        self._base = _base(report)
        self._cases = [[_bare(case) for case in suite["cases"]] for suite in self._base["suites"]]
        places = [
            (_turn(case), number, index) for index, each in enumerate(self._cases) for number, case in enumerate(each)
        ]
        self._places = sorted(places)
        self.most = len(places)

    def with_cases(self, count: int) -> Json:
        """The first ones of each suite; the others are counted."""
        kept: list[list[int]] = [[] for _ in self._cases]
        for _, number, index in self._places[:count]:
            kept[index].append(number)
        suites = []
        for suite, cases, numbers in zip(self._base["suites"], self._cases, kept, strict=True):
            short = {**suite, "cases": cases}
            if "leftOut" in suite:
                short["leftOut"] = copy.deepcopy(suite["leftOut"])
            left_out.keep(short, [cases[number] for number in sorted(numbers)])
            suites.append(short)
        return {**self._base, "suites": suites}


def _turn(case: Json) -> int:
    """First measurements, then cases in quarantine and flaky ones, then what failed or was interrupted."""
    if "measurements" in case:
        return 0
    if case.get("quarantined") or "earlier" in case:
        return 1
    return 2 if is_bad(case) or is_interrupted(case) else 3


def _bare(case: Json) -> Json:
    short = {key: case[key] for key in KEPT if key in case}
    if "message" in case:
        short["message"] = limits.cut_middle(case["message"], MESSAGE_BYTES)
    if "earlier" in case:
        short["earlier"] = [{key: one[key] for key in ("outcome", "seconds")} for one in case["earlier"]]
    return short


def _base(report: Json) -> Json:
    """Names that are longer than any real one were forged."""
    run, world, versions = report["run"], report["world"], report["versions"]
    return {
        **report,
        "run": {key: value[:NAME_CHARACTERS] if isinstance(value, str) else value for key, value in run.items()},
        "world": {**world, "nodeNames": [name[:NAME_CHARACTERS] for name in world["nodeNames"][: limits.NODES]]},
        "versions": {
            key[:WORD_CHARACTERS]: value[:WORD_CHARACTERS] for key, value in list(versions.items())[:VERSIONS]
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
        "preflight": [],
        "atFault": [index for index in report["atFault"] if 0 <= index < limits.NODES][: limits.NODES],
        "thresholds": report["thresholds"][: limits.THRESHOLDS],
    }


T = TypeVar("T")

STACK_BYTES = 1024
RANK_MESSAGE_BYTES = 256
RANKS = 16
NODES = 8
MEASUREMENTS = 256  # of the whole report
SENTENCES = ("summary", "artifacts")  # of a diagnosis
BY_RANK = "byRank"
BY_ONE_RANK = frozenset({"stacks", "logs"})
TRIMMED = "trimmed"
BETWEEN = "; "


def fit(report: Json, pack: Callable[[bytes], T | None]) -> tuple[bytes, T, str]:
    """The report's bytes, what `pack` made of them, and what was left out. `pack` says None to what is too large.

    The report is changed. Raises ValueError where `pack` refuses even a few hundred KiB.
    """
    said = str(report.pop(TRIMMED, ""))
    raw = dumps(_with_words(report, said))
    if (packed := _packed(report, raw, pack)) is not None:
        return raw, packed, said
    size = len(raw) - _bytes(said) + (0 if said else len(f',"{TRIMMED}":""'))
    for words, rule in RULES:
        rule(report)
        more = _joined(said, words)
        raw = dumps(_with_words(report, more))
        size, size_before = len(raw) - _bytes(more), size
        if size == size_before:
            continue  # there was nothing of the kind
        said = more
        if (packed := _packed(report, raw, pack)) is not None:
            return raw, packed, said
    return _last_resort(report, said, pack)


def _bytes(words: str) -> int:
    """As `dumps` writes them: a report may have been trimmed before, in whatever words its pod says."""
    return len(words.encode(errors="replace"))


def _last_resort(report: Json, said: str, pack: Callable[[bytes], T | None]) -> tuple[bytes, T, str]:
    """As many cases as there is room for, and of all else what has an upper bound."""
    shortest = Shortest(report)

    def attempt(count: int) -> tuple[bytes, T, str] | None:
        words = _joined(limits.cut(said, limits.MESSAGE_BYTES), cases_words(count))
        short = shortest.with_cases(count)
        raw = dumps(_with_words(short, words))
        packed = _packed(short, raw, pack)
        return None if packed is None else (raw, packed, words)

    best, fits, too_many = attempt(0), 0, shortest.most + 1
    if best is None:
        raise ValueError("there is no room for a report, not even for one without cases")
    while too_many - fits > 1:
        count = (fits + too_many) // 2
        found = attempt(count)
        best, fits, too_many = (found, count, too_many) if found else (best, fits, count)
    return best


def dumps(report: Json) -> bytes:
    """Compact UTF-8."""
    return json.dumps(report, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def _packed(report: Json, raw: bytes, pack: Callable[[bytes], T | None]) -> T | None:
    """None as well where no reader would take it."""
    return None if bounds.of_text(raw) or bounds.of_cases(report) else pack(raw)


def _with_words(report: Json, words: str) -> Json:
    return {**report, TRIMMED: words} if words else report


def _joined(said: str, words: str) -> str:
    parts = said.split(BETWEEN) if said else []
    if words.startswith(HEAD):  # cut once more
        parts = [part for part in parts if not part.startswith(HEAD)]
    return BETWEEN.join(parts if words in parts else [*parts, words])


def _cases(report: Json) -> Iterator[Json]:
    return (case for suite in report["suites"] for case in suite["cases"])


def _cut_good_messages(report: Json) -> None:
    for case in _cases(report):
        if not (is_bad(case) or is_interrupted(case)):
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
        if not case.get("quarantined"):  # a pattern must still fit it
            case["id"] = limits.cut_id(case["id"])


def _cut_measurements(report: Json) -> None:
    """What thresholds are judged by stays: the slowest of each kind, and first what has a threshold."""
    slowest: dict[tuple[str, str, int], Json] = {}
    for case in _cases(report):
        for one in case.get("measurements", ()):
            key = (one["collective"], one["dtype"], one["sizeBytes"])
            if key not in slowest or one["busBytesPerSecond"] < slowest[key]["busBytesPerSecond"]:
                slowest[key] = one
    asked = {(one["collective"], one["sizeBytes"]) for one in report.get("thresholds", ())}
    ranked = sorted(slowest, key=lambda key: ((key[0], key[2]) not in asked, key))
    kept = {id(slowest[key]) for key in ranked[:MEASUREMENTS]}
    for case in _cases(report):
        if left := [one for one in case.pop("measurements", ()) if id(one) in kept]:
            case["measurements"] = left


def _drop_good_cases(report: Json) -> None:
    """But for those that tell more than that they passed."""
    for suite in report["suites"]:
        kept = [case for case in suite["cases"] if _tells_more(case)]
        left_out.keep(suite, kept)


def _tells_more(case: Json) -> bool:
    return is_bad(case) or is_interrupted(case) or bool(case.keys() & {"earlier", "measurements"})


# What is left out, in words, and how. `docs/runner.md` has the table.
RULES: tuple[tuple[str, Callable[[Json], None]], ...] = (
    ("messages of cases that did not fail", _cut_good_messages),
    (f"stacks and logs beyond {STACK_BYTES} bytes, and all of a diagnosis but its sentence", _cut_stacks),
    (
        f"ranks beyond {RANKS} and nodes beyond {NODES} of a case, messages of ranks beyond {RANK_MESSAGE_BYTES} bytes",
        _cut_ranks,
    ),
    (f"stacks, logs, messages of ranks, other messages beyond {limits.FAILURE_MESSAGE_BYTES} bytes", _cut_messages),
    ("measurements but the slowest of each collective, type and size", _cut_measurements),
    ("cases that did not fail", _drop_good_cases),
)
