"""`python -m tools.docs.metrics` prints the tables of docs/metrics.md."""

import sys
from collections.abc import Iterator

from disttest_operator.metrics.families import SERIES, Family, Group, in_group

COMMON = {Group.RUNS, Group.LAST, Group.ACTIVE, Group.FABRIC, Group.SCHEDULE}  # all of these have namespace and series


def tables() -> str:
    """All families, in Markdown, in the groups and order of the code."""
    return "\n".join(line for group in Group for line in _table(group))


def _table(group: Group) -> Iterator[str]:
    has_common = group in COMMON
    words = "further labels" if has_common else "labels"
    yield f"### {group.value}"
    yield ""
    if has_common:
        yield "Each with the labels `namespace` and `series`."
        yield ""
    bound = "at most, for each series" if has_common else "at most"
    yield f"| name | type | {words} | {bound} | meaning |"
    yield "|---|---|---|---|---|"
    for family in in_group(group):
        labels = family.labels[len(SERIES) :] if has_common else family.labels
        yield _row(family, ", ".join(labels))
    yield ""


def _row(family: Family, labels: str) -> str:
    return f"| `{family.shown_name}` | {family.type} | {labels} | {family.bound} | {family.meaning} |"


if __name__ == "__main__":
    sys.stdout.write(tables())
