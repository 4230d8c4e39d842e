"""Times and how long something took, for people."""

from datetime import datetime

MINUTE, HOUR, DAY = 60, 3600, 86400
NEVER = ""


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago, as kubectl says it; nothing where there is no time."""
    return NEVER if moment is None else span(max(0, int((now - moment).total_seconds())))


def span(seconds: float | None) -> str:
    """Two units at most: 0.4s, 12s, 1m18s, 2h10m, 4d3h."""
    if seconds is None:
        return NEVER
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    for size, unit, part, smaller in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "m"), (MINUTE, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"
