"""Failing cases by name: now, and over the nights."""

from monitoring.dashboards import looks
from monitoring.dashboards.board import Item
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Ask, Head, timeline
from monitoring.dashboards.tables import Column, Rows, table_of

STEP = "6h"  # fine enough to see in which night a case came and went
LOOK = Look(steps=looks.FAILING, by_steps=True)
NONE = "absent while no case fails"


def named(scope: str, keys: tuple[tuple[str, str], ...], link: tuple[str, str] | None = None) -> Item:
    keys = (*keys, ("suite", "Suite"), ("case", "Case"))
    head = Head(
        "Failing cases by name",
        "Cases that were bad when they last ran, at most 50 a series, and for how many runs in a row.",
        width=14,
        link=link,
    )
    column = Column("Runs in a row", _streak(scope, [label for label, _ in keys]), look=LOOK, width=120, or_empty=NONE)
    return table_of(head, Rows(keys=keys, sort=column.name), (column,))


def by_night(scope: str, labels: tuple[str, ...]) -> Item:
    head = Head(
        "Failing cases by night",
        "A bar from the night in which a case broke to the one in which it was good again, with the streak.",
        width=24,
        height=9,
        step=STEP,
    )
    name = " ".join(f"{{{{{label}}}}}" for label in labels)
    return timeline(head, Ask(_streak(scope, ["namespace", "series", "suite", "case"]), name, or_empty=NONE), LOOK)


def _streak(scope: str, labels: list[str]) -> str:
    return f"max by ({', '.join(labels)}) (disttest_failing_case_streak{{{scope}}})"
