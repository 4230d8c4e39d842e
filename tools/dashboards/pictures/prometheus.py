"""Asks a Prometheus what a panel asks it."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from tools.dashboards.boards.queries import Query

LABEL = re.compile(r"\{\{(\w+)\}\}")


class PrometheusError(Exception):
    """Prometheus is not there or refuses the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLine:
    """One series of an answer: its labels, the name that the panel gives it, and (seconds, value) pairs."""

    labels: dict[str, str]
    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]


def ask(address: str, query: Query, start: float, end: float) -> tuple[SeriesLine, ...]:
    """As Grafana asks: the steps of a range lie at whole multiples of the step."""
    if query.instant:
        found = _get(address, "query", query=query.expr, time=end)
        return tuple(_line(query, row["metric"], [row["value"]]) for row in found)
    step = query.step_seconds
    bounds = {"start": start // step * step, "end": end // step * step, "step": step}
    found = _get(address, "query_range", query=query.expr, **bounds)
    return tuple(_line(query, row["metric"], row["values"]) for row in found)


def _line(query: Query, labels: dict[str, str], values: list[list[Any]]) -> SeriesLine:
    shown = {label: text for label, text in labels.items() if label != "__name__"}
    name = LABEL.sub(lambda found: labels.get(found[1], ""), query.name)
    if not name or name == "__auto":
        name = " ".join(shown.values())
    return SeriesLine(labels=shown, name=name.strip(), points=tuple((float(at), float(value)) for at, value in values))


def _get(address: str, path: str, **asked: str | float) -> list[dict[str, Any]]:
    url = f"{address.rstrip('/')}/api/v1/{path}"
    if not url.startswith(("http://", "https://")):
        raise PrometheusError(f"{address!r} is no address of a Prometheus; write http://HOST:PORT")
    body = urllib.parse.urlencode(asked).encode()
    try:
        with urllib.request.urlopen(url, data=body, timeout=60) as answer:  # noqa: S310  # http only, checked above
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return result
    except urllib.error.HTTPError as error:
        raise PrometheusError(
            f"{url} refused {asked['query']}: {error.read().decode(errors='replace')[:500]}"
        ) from error
    except OSError as error:
        raise PrometheusError(f"{url} does not answer: {error}") from error
