"""Nodes: who is suspect, who was, and when each was last tested by which series."""

from monitoring.dashboards import looks, promql
from monitoring.dashboards.board import Item, Section
from monitoring.dashboards.looks import Look
from monitoring.dashboards.panels import Ask, Head, bars, lines, ranking
from monitoring.dashboards.promql import MANY, in_night_or_born, of_night
from monitoring.dashboards.tables import Column, Rows, matrix, table_of

TESTED = f"disttest_node_last_tested_timestamp_seconds{{{MANY}}}"
NO_BLAME = "absent while no node is blamed"
NONE_CONFIRMED = "no node was confirmed"


def nodes() -> Section:
    return Section(title="Suspect nodes", items=(_suspects(), *_confirmed()))


def _suspects() -> Item:
    return table_of(
        Head(
            "Suspect nodes",
            "Nodes that runs of any series blame; gone when a later run passed there. Confirmed: a second failure "
            "there, and a pass elsewhere.",
        ),
        Rows(keys=(("node", "Node"), ("reason", "Reason"), ("confirmed", "Confirmed")), sort="Node", descending=False),
        (
            Column(
                "Suspect",
                "max by (node, reason, confirmed) (disttest_node_suspect)",
                look=Look(words=looks.YES_IS_BAD),
                width=80,
                or_empty=NO_BLAME,
            ),
        ),
    )


def _confirmed() -> tuple[Item, Item]:
    confirmed = ranking(
        Head(
            "Confirmed failures",
            "Runs so far that were sure that the node was at fault, by node and reason.",
        ),
        Ask(
            "max by (node, reason) (disttest_node_failures_total)",
            "{{node}} {{reason}}",
            or_empty=NONE_CONFIRMED,
        ),
        Look(decimals=0, lowest=0),
    )
    by_night = bars(
        Head(
            "Confirmed failures by night",
            "How many came to them on each day.",
            width=24,
            height=6,
            step=promql.NIGHT,
        ),
        Ask(
            f"sum by (node) ({in_night_or_born('disttest_node_failures_total')}) > 0.5",
            "{{node}}",
            or_empty=NONE_CONFIRMED,
        ),
        Look(decimals=0),
    )
    return confirmed, by_night


def coverage() -> Section:
    age = Look(unit="s", decimals=1, by_steps=True, steps=looks.NIGHTS_OLD)
    by_series = matrix(
        Head(
            "Last test of each node by series",
            "How long ago a run with results of each series was made on each node; empty: never, or forgotten.",
            width=16,
            height=10,
        ),
        f"time() - max by (node, series) ({TESTED})",
        ("node", "Node"),
        "series",
        age,
    )
    longest = ranking(
        Head(
            "Longest without a test",
            "The 20 nodes whose last test by any chosen series is the oldest. Nodes that were never tested are not "
            "known here.",
            width=8,
            height=10,
        ),
        Ask(f"topk(20, time() - max by (node) ({TESTED}))", "{{node}}"),
        age,
    )
    return Section(title="Coverage", items=(by_series, longest, _each_night()))


def _each_night() -> Item:
    return lines(
        Head(
            "Nodes tested each night",
            "Nodes on which a run with results was made on that day, by series.",
            width=24,
            height=7,
            step=promql.NIGHT,
        ),
        (
            Ask(
                f"count by (series) (max by (series, node) ({of_night(TESTED)}) >= time())",
                "{{series}}",
            ),
            Ask(f"count(max by (node) ({of_night(TESTED)}) >= time())", "any"),
        ),
        Look(lowest=0, decimals=0),
    )
