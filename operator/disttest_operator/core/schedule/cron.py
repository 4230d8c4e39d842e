"""Cron expressions as Kubernetes' CronJob controller reads them.

Libraries follow the cron of Debian or Vixie instead. The controller skips a time that clocks jump over, runs
twice at a time that they show twice, has no Sunday 7, and treats `*/2` as a list of days.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

YEARS = 5  # that are searched: 31 February does not exist
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NUMBER = re.compile(r"\+?[0-9]{1,9}")
STARS = frozenset({"*", "?"})
DAY = timedelta(days=1)


class InvalidScheduleError(ValueError):
    """The message names the part that is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Sunday is weekday 0. `is_either_day`: day of the month or of the week must match; otherwise both must."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_either_day: bool

    def has(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return is_day or is_weekday if self.is_either_day else is_day and is_weekday


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the values, from the lowest


FIELDS = (
    _Field(name="minute", low=0, high=59),
    _Field(name="hour", low=0, high=23),
    _Field(name="day of the month", low=1, high=31),
    _Field(name="month", low=1, high=12, names=MONTHS),
    _Field(name="day of the week", low=0, high=6, names=WEEKDAYS),
)


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Cron:
    """Raises InvalidScheduleError. `@every` is not supported: its times depend on when the controller syncs."""
    parts = MACROS.get(text, text).split()
    if len(parts) != len(FIELDS):
        raise InvalidScheduleError(f"schedule {text!r}: write five fields, or one of {', '.join(MACROS)}")
    minutes, hours, days, months, weekdays = (_read(part, field) for part, field in zip(parts, FIELDS, strict=True))
    return Cron(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(weekdays),
        is_either_day=not (_has_star(parts[2]) or _has_star(parts[4])),
    )


def zone(name: str) -> ZoneInfo:
    """UTC if the name is empty, since the controller's time zone is unknown. Raises InvalidScheduleError."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: a folder of zones, such as Europe
        raise InvalidScheduleError(f"time zone {name!r} is unknown; write one like Europe/Berlin") from error


def around(cron: Cron, where: ZoneInfo, moment: datetime) -> tuple[datetime | None, datetime | None]:
    """The last scheduled time at or before `moment`, and the first after it; None if not within five years."""
    now = moment.timestamp()
    today = moment.astimezone(where).date()
    last = next((stamps[at - 1] for stamps, at in _found(cron, where, now, _backward(today)) if at), None)
    following = (stamps[at] for stamps, at in _found(cron, where, now, _forward(today)) if at < len(stamps))
    return _time(last), _time(next(following, None))


def _found(cron: Cron, where: ZoneInfo, now: float, days: Iterator[date]) -> Iterator[tuple[Sequence[int], int]]:
    """For each scheduled day its times, and how many of them are not later than `now`."""
    for day in days:
        if cron.has(day):
            stamps = _stamps(cron, where, day)
            yield stamps, bisect_right(stamps, now)


def _backward(day: date) -> Iterator[date]:
    return (day - DAY * number for number in range((day - date(day.year - YEARS, 1, 1)).days + 1))


def _forward(day: date) -> Iterator[date]:
    return (day + DAY * number for number in range((date(day.year + YEARS, 12, 31) - day).days + 1))


def _stamps(cron: Cron, where: ZoneInfo, day: date) -> list[int]:
    """The sorted times of a day in seconds since 1970."""
    minutes = (60 * hour + minute for hour in cron.hours for minute in cron.minutes)
    midnight = datetime.combine(day, time(), where)
    if midnight.utcoffset() == (midnight + DAY).utcoffset():
        start = int(midnight.timestamp())
        return [start + 60 * minute for minute in minutes]
    walls = [midnight + timedelta(minutes=minute) for minute in minutes]
    twice = chain.from_iterable((wall, wall.replace(fold=1)) for wall in walls)
    return sorted({int(wall.timestamp()) for wall in twice if _exists(wall)})


def _exists(wall: datetime) -> bool:
    """False for a time that clocks jump over: a conversion to UTC and back changes it."""
    return wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None)


def _time(stamp: int | None) -> datetime | None:
    return None if stamp is None else datetime.fromtimestamp(stamp, UTC)


def _has_star(text: str) -> bool:
    """`*/1` is a star; a larger step, as in `*/2`, makes it a list of days."""
    parts = (part.partition("/") for part in text.split(","))
    return any(span.split("-")[0] in STARS and int(step or 1) == 1 for span, _, step in parts)


def _read(text: str, field: _Field) -> set[int]:
    values: set[int] = set()
    for part in filter(None, text.split(",")):
        values |= _range(part, field)
    return values


def _range(part: str, field: _Field) -> set[int]:
    """The values of `5`, `1-5` or `*`, each with or without a step such as `/10`; `5/10` continues to the end."""
    span, has_step, step_text = part.partition("/")
    ends = span.split("-")
    if ends[0] in STARS:
        low, high = field.low, field.high
    elif len(ends) <= 2:
        low, high = _number(ends[0], part, field), _number(ends[-1], part, field)
    else:
        raise InvalidScheduleError(f"{field.name} {part!r}: too many hyphens")
    if has_step and len(ends) == 1:
        high = field.high
    step = _number(step_text, part, None) if has_step else 1
    if not (field.low <= low <= high <= field.high and step):
        raise InvalidScheduleError(f"{field.name} {part!r}: write numbers from {field.low} to {field.high}, in order")
    return set(range(low, high + 1, step))


def _number(text: str, part: str, field: _Field | None) -> int:
    if field and text.lower() in field.names:
        return field.low + field.names.index(text.lower())
    if not NUMBER.fullmatch(text):
        name = field.name if field else "step"
        raise InvalidScheduleError(f"{name} {part!r}: {text!r} is not a number that Kubernetes accepts")
    return int(text)
