"""What a report measured beyond outcomes: bandwidths, hangs, and with what it was made.

A report is written next to the code under test, which can forge it: what becomes a label comes from closed alphabets.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from disttest_contract.measurement import Measurement
from disttest_contract.outcomes import Outcome
from disttest_contract.report import Report
from disttest_contract.thresholds import Asked, Threshold

POINTS = 64  # of a run: collective, type and size
WORD = re.compile(r"[a-z0-9_]{1,32}")
VERSION = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._+]{0,39}")
PRODUCT = re.compile(r"[A-Za-z0-9][-A-Za-z0-9 ._()/]{0,63}")
ODD = "odd"  # what a version or product is called that does not look like one
SIZE_BYTES = 1 << 50
MOST = 1e18  # of bytes a second, seconds and elements: what is more is no measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Rows as the ledger has them, in order of collective, type and size; and how many more there were."""

    rows: tuple[Mapping[str, Any], ...] = ()
    cut: int = 0


def points(report: Report, wanted: Sequence[Threshold] = ()) -> Points:
    """Measured twice, the slower one counts, and all wrong elements. What has a threshold is cut last."""
    found: dict[tuple[str, str, int], Measurement] = {}
    wrong: Counter[tuple[str, str, int]] = Counter()
    for one in _measurements(report):
        key = (one.collective, one.dtype, one.size_bytes)
        wrong[key] += one.wrong_elements
        if key not in found or one.bus_bytes_per_second < found[key].bus_bytes_per_second:
            found[key] = one
    asked = Asked(wanted)
    references = {key: threshold for key, one in found.items() if (threshold := asked.highest(one))}
    kept = sorted(sorted(found, key=lambda key: (key not in references, key))[:POINTS])
    rows = tuple(_row(found[key], wrong[key], references.get(key)) for key in kept)
    return Points(rows=rows, cut=len(found) - len(kept))


def hangs(report: Report) -> dict[str, int]:
    """Cases by suite that hung at any try."""
    counted: Counter[str] = Counter()
    for suite in report.suites:
        for case in suite.cases:
            counted[suite.name] += Outcome.HUNG in {case.outcome, *(one.outcome for one in case.earlier)}
    return dict(counted)


def made_with(report: Report) -> dict[str, str]:
    """Backend, versions and GPU, each empty where it is not known. Where nodes differ there is no first case."""
    versions = {str(key): value for key, value in report.versions.items()}
    gpus = Counter(gpu for node in report.preflight for gpu in node.gpus)
    product = gpus.most_common(1)[0][0] if gpus else ""
    return {
        "backend": _known(WORD, report.backend),
        "torchVersion": _known(VERSION, versions.get("torch", "")),
        "ncclVersion": _known(VERSION, versions.get("nccl", "")),
        "gpuProduct": _known(PRODUCT, product),
    }


def _measurements(report: Report) -> Iterator[Measurement]:
    every = (one for suite in report.suites for case in suite.cases for one in case.measurements)
    return (one for one in every if _is_sound(one))


def _is_sound(one: Measurement) -> bool:
    numbers = (one.bus_bytes_per_second, one.seconds, one.slowest_rank_seconds, one.wrong_elements)
    are_numbers = all(math.isfinite(number) and 0 <= number < MOST for number in numbers)
    are_words = WORD.fullmatch(one.collective) and WORD.fullmatch(one.dtype)
    return bool(are_words) and are_numbers and 0 < one.size_bytes <= SIZE_BYTES


def _row(one: Measurement, wrong: int, reference: Threshold | None) -> dict[str, Any]:
    row = {
        "collective": one.collective,
        "dtype": one.dtype,
        "sizeBytes": one.size_bytes,
        "busBytesPerSecond": one.bus_bytes_per_second,
        "seconds": one.seconds,
        "slowestSeconds": one.slowest_rank_seconds,
        "wrongElements": wrong,
    }
    return row | ({"referenceBytesPerSecond": reference.min_bus_bandwidth_bytes_per_second} if reference else {})


def _known(pattern: re.Pattern[str], text: str) -> str:
    return text if not text or pattern.fullmatch(text) else ODD
