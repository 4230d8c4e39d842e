"""The shortest form of a report: of everything only what has an upper bound, and as many cases as there is room for."""

import copy
from typing import Any

from disttest_contract import left_out, limits
from disttest_contract.left_out import is_bad, is_interrupted

Json = dict[str, Any]

MESSAGE_BYTES = 160  # of a case
NAME_CHARACTERS = 253
WORD_CHARACTERS = 64
VERSIONS = 16
HEAD = "all but"
KEPT = ("id", "outcome", "seconds", "at", "measurements", "quarantined", "signal", "exitCode")


def words(count: int) -> str:
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
