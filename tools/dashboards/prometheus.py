"""Reads Prometheus' HTTP API: single queries, and the queries of panels as Grafana sends them."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tools.dashboards.boards.queries import Query

LABEL = re.compile(r"\{\{(\w+)\}\}")
Sample = dict[str, Any]  # `metric`, and `value` or `values`


class PrometheusError(Exception):
    """Prometheus does not respond or rejects the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A Prometheus server. A query that fails raises a PrometheusError."""

    url: str

    def ask(self, expression: str, at: datetime | None = None) -> list[Sample]:
        """The result of an instant query, by default at the current time."""
        return self._get("query", query=expression, **({"time": at.timestamp()} if at else {}))

    def ask_range(self, expression: str, begin: float, end: float, step_seconds: float) -> list[Sample]:
        """The result of a range query; times are in seconds since the epoch."""
        return self._get("query_range", query=expression, start=begin, end=end, step=step_seconds)

    def _get(self, path: str, **parameters: str | float) -> list[Sample]:
        url = f"{self.url.rstrip('/')}/api/v1/{path}"
        if not url.startswith(("http://", "https://")):
            raise PrometheusError(f"{self.url!r} is not the address of a Prometheus server. Use http://HOST:PORT.")
        body = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(url, data=body, timeout=60) as answer:  # noqa: S310  # http only, checked above
                result: list[Sample] = json.load(answer)["data"]["result"]
                return result
        except urllib.error.HTTPError as error:
            refusal = error.read().decode(errors="replace")[:500]
            raise PrometheusError(f"{url} rejected the query {parameters['query']}: {refusal}") from error
        except OSError as error:
            raise PrometheusError(f"{url} does not respond: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLine:
    """One series of a result: its labels, its name in the panel, and (seconds, value) pairs."""

    labels: dict[str, str]
    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]


def ask(address: str, query: Query, start: float, end: float) -> tuple[SeriesLine, ...]:
    """The series of a panel's query. As in Grafana, the times of a range are multiples of the step."""
    prometheus = Prometheus(url=address)
    if query.instant:
        found = prometheus.ask(query.expr, datetime.fromtimestamp(end, tz=UTC))
        return tuple(_line(query, row["metric"], [row["value"]]) for row in found)
    step = query.step_seconds
    found = prometheus.ask_range(query.expr, start // step * step, end // step * step, step)
    return tuple(_line(query, row["metric"], row["values"]) for row in found)


def _line(query: Query, labels: dict[str, str], values: list[list[Any]]) -> SeriesLine:
    shown = {label: text for label, text in labels.items() if label != "__name__"}
    name = LABEL.sub(lambda found: labels.get(found[1], ""), query.name)
    if not name or name == "__auto":
        name = " ".join(shown.values())
    return SeriesLine(labels=shown, name=name.strip(), points=tuple((float(at), float(value)) for at, value in values))
