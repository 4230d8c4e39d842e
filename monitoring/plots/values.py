"""Values as people read them: by unit, mapping and threshold of a panel's field settings."""

from typing import Any

from monitoring.dashboards.looks import BLUE

Json = dict[str, Any]
PER_SECOND = {"ops": "/s", "reqps": " req/s", "wps": " writes/s", "Bps": "B/s", "bytes": "B"}
SPANS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))


def words_of(field: Json, value: float) -> tuple[str, str] | None:
    """Text and colour of a mapped value."""
    for mapping in field.get("mappings") or []:
        if found := mapping["options"].get(f"{value:g}"):
            return found["text"], found["color"]
    return None


def text(field: Json, value: float, end: float) -> str:
    if found := words_of(field, value):
        return found[0]
    unit = field.get("unit", "short")
    if unit == "dateTimeFromNow":
        seconds = value / 1000 - end
        return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"
    if unit == "percentunit":
        return f"{value * 100:.{field.get('decimals') or 0}f} %"
    if unit == "s":
        return span(value)
    if unit == "bytes":
        return _scaled(value, 1024, ("", "Ki", "Mi", "Gi")) + "B"
    return _scaled(value, 1000, ("", "k", "M", "G", "T")) + PER_SECOND.get(unit, "")


def span(seconds: float) -> str:
    for size, unit in SPANS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s"


def colour(field: Json, value: float) -> str | None:
    """The colour of the mapping or threshold; none where the field is not coloured by value."""
    if found := words_of(field, value):
        return found[1]
    if (field.get("color") or {}).get("mode") != "thresholds":
        return None
    steps = (field.get("thresholds") or {}).get("steps") or [{"value": None, "color": BLUE}]
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return str(reached[-1])


def _scaled(value: float, base: int, prefixes: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base and power < len(prefixes) - 1:
        value, power = value / base, power + 1
    return f"{value:.3g}{' ' if prefixes[power] else ''}{prefixes[power]}"
