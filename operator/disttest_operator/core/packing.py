"""A report as the bytes of a ConfigMap: whole if it fits, else with the least telling parts left out, and saying so."""

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import BAD
from disttest_operator.core.evidence import ReportFound

BAD_WORDS = frozenset(outcome.value for outcome in BAD)
STACK_BYTES = 1024
SENTENCES = ("summary", "artifacts")  # of a diagnosis
FEW_CASES = 200
TELLING = frozenset({"earlier", "measurements"})
JUDGED = ("measurements", "quarantined")  # without these a stored report could come to another verdict
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """`sha256` is of the JSON inside. `trimmed` says what was left out; empty for a whole report."""

    gz_bytes: bytes
    sha256: str
    trimmed: str = ""


def pack(found: ReportFound, limit_bytes: int = limits.CONFIG_MAP_REPORT_BYTES) -> Packed | None:
    """None if even the shortest form is too large."""
    whole = _gzip(found.raw)
    if len(whole) <= limit_bytes:
        return Packed(gz_bytes=whole, sha256=found.sha256)
    report = found.report.to_json()
    for words, trim in TRIMS:
        trim(report)
        raw = json.dumps({**report, "trimmed": words}, separators=(",", ":"), ensure_ascii=False).encode()
        packed = _gzip(raw)
        if len(packed) <= limit_bytes:
            return Packed(gz_bytes=packed, sha256=hashlib.sha256(raw).hexdigest(), trimmed=words)
    return None


def _gzip(raw: bytes) -> bytes:
    return gzip.compress(raw, mtime=0)  # the same bytes whenever it is done


def _cases(report: Json) -> list[Json]:
    return [case for suite in report["suites"] for case in suite["cases"]]


def _drop_good_messages(report: Json) -> None:
    for case in _cases(report):
        if case["outcome"] not in BAD_WORDS:
            case.pop("message", None)


def _cut_stacks(report: Json) -> None:
    for case in _cases(report):
        if "stacks" in case:
            case["stacks"] = {rank: limits.cut(text, STACK_BYTES) for rank, text in case["stacks"].items()}
        if "diagnosis" in case:
            case["diagnosis"] = {key: case["diagnosis"][key] for key in SENTENCES if key in case["diagnosis"]}


def _drop_good_cases(report: Json) -> None:
    """But for those that tell more than that they passed."""
    for suite in report["suites"]:
        suite["cases"] = [case for case in suite["cases"] if case["outcome"] in BAD_WORDS or case.keys() & TELLING]


def _keep_few(report: Json) -> None:
    """Short ids, short messages, no stacks, of the first cases of each suite."""
    for suite in report["suites"]:
        suite["cases"] = [
            {
                "id": limits.cut_id(case["id"]),
                "outcome": case["outcome"],
                "seconds": case["seconds"],
                "message": limits.cut(case.get("message", ""), limits.FAILURE_MESSAGE_BYTES),
                **{key: case[key] for key in JUDGED if key in case},
            }
            for case in suite["cases"][:FEW_CASES]
        ]


# Each is done on top of the ones before it.
TRIMS: tuple[tuple[str, Callable[[Json], None]], ...] = (
    ("messages of cases that did not fail", _drop_good_messages),
    ("messages of cases that did not fail, ends of stacks", _cut_stacks),
    ("cases that did not fail, ends of stacks", _drop_good_cases),
    (f"cases that did not fail, stacks, all but {FEW_CASES} failed cases a suite", _keep_few),
)
