"""A comparison for programs. Fields are added, never renamed."""

import dataclasses
import math
from typing import Any

from disttest_cli.comparing.model import Comparison, Speed
from disttest_contract.report import Report


def document(comparison: Comparison) -> dict[str, Any]:
    """Whole: nothing is cut, and nothing made harmless."""
    paces = comparison.paces
    return {
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "worse": list(comparison.worse),
        "warnings": list(comparison.warnings),
        "environment": [_fields(one) for one in comparison.environment],
        "cases": {
            "common": comparison.common,
            "unknown": comparison.unknown,
            **{kind.value: [_fields(one) for one in changes] for kind, changes in comparison.changes.items()},
        },
        "durations": {
            "compared": paces.compared,
            "leastRatio": round(paces.least_ratio, 3),
            "earlierReports": comparison.earlier,
            "suites": [_fields(one) for one in paces.drifts],
            "slower": [_fields(one) | {"ratio": round(one.ratio, 3)} for one in paces.slower],
            "faster": [_fields(one) | {"ratio": round(one.ratio, 3)} for one in paces.faster],
        },
        "bandwidths": [_speed(one) for one in comparison.speeds],
    }


def _side(report: Report) -> dict[str, Any]:
    return {
        "namespace": report.namespace,
        "name": report.name,
        "uid": report.uid,
        "attempt": report.attempt,
        "series": report.series,
        "started": report.started if math.isfinite(report.started) else None,
        "verdict": report.verdict.value,
        "reason": report.reason.value,
        "trimmed": report.trimmed,
        "counts": report.counts.to_json(),
    }


def _speed(one: Speed) -> dict[str, Any]:
    return _fields(one) | {"change": round(one.change, 4), "belowThreshold": one.is_below}


def _fields(one: Any) -> dict[str, Any]:
    """camelCase, as everything on the wire; seconds to a tenth of a millisecond."""
    found = dataclasses.asdict(one)
    return {_camel(key): round(value, 4) if isinstance(value, float) else value for key, value in found.items()}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
