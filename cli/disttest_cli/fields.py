"""Read fields of JSON objects that others wrote: a field that is missing or has another type is empty."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from disttest_contract.text import formatting


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def texts(value: Any) -> list[str]:
    return [str(one) for one in value if one is not None] if isinstance(value, list | tuple) else []


def text(value: Any) -> str:
    """A scalar as text; empty for lists and mappings."""
    return "" if value is None or isinstance(value, list | tuple | Mapping) else str(value)


def number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def count(value: Any) -> int:
    return int(number(value) or 0)


def moment(value: Any) -> datetime | None:
    """A timestamp of Kubernetes (RFC 3339), with a time zone."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return read.replace(tzinfo=read.tzinfo or UTC) if read else None


def metadata(body: Any) -> Mapping[str, Any]:
    return mapping(mapping(body).get("metadata"))


def spec(body: Any) -> Mapping[str, Any]:
    return mapping(mapping(body).get("spec"))


def status(body: Any) -> Mapping[str, Any]:
    return mapping(mapping(body).get("status"))


def namespace(body: Any) -> str:
    return text(metadata(body).get("namespace"))


def name(body: Any) -> str:
    return text(metadata(body).get("name"))


def rank_words(value: Any) -> str:
    """Ranks of a failure as text like `0-3,7`, from a list or from such a text."""
    if isinstance(value, str):
        return value
    numbers = [one for one in value if isinstance(one, int)] if isinstance(value, list | tuple) else []
    return formatting.show_ranks(numbers)
