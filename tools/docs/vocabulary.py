"""docs/reference: one sentence for each verdict, outcome, reason, phase and condition; and the lists of metrics."""

from collections.abc import Iterable, Iterator

from disttest_contract.outcomes import EXIT_CODES, Outcome, Reason, Verdict
from disttest_operator.core.api import conditions
from disttest_operator.metrics.families import SERIES, Family, FamilyType, Group, in_group
from tools.docs import between, bullets

HEAD = """\
# Vocabulary

This page lists the values in the status of a DistTest, in reports and in metrics.
[Troubleshooting](../troubleshooting.md) lists fixes.

<!-- generated -->"""
VERDICTS = """\
The verdict of a suite or run never changes. The command line returns the exit code in parentheses."""
REASONS = "`status.reason` explains the verdict."
OUTCOMES = "The outcome of a case is the worst of its ranks."
PHASES = "`status.phase` is for display only: clients should wait for conditions."
CONDITIONS = """\
A condition in `status.conditions` has the status True if its sentence applies. To wait for the end
of a run, use `kubectl wait --for=condition=Finished dt/RUN`."""


def page() -> str:
    verdicts = ((f"`{one}` ({int(EXIT_CODES[one])})", one.description) for one in Verdict)
    return (
        "\n\n".join(
            [
                *(HEAD, "## Verdicts", VERDICTS, bullets(verdicts)),
                *_section("Reason", REASONS, ((one, one.description) for one in Reason)),
                *_section("Outcome", OUTCOMES, ((one, one.description) for one in Outcome)),
                *_section("Phase", PHASES, conditions.PHASES.items()),
                *_section("Condition", CONDITIONS, conditions.CONDITIONS.items()),
            ]
        )
        + "\n"
    )


def _section(name: str, text: str, sentences: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"## {name}s"
    yield text
    yield bullets((f"`{one}`", sentence) for one, sentence in sentences)


BEGIN, END = "<!-- begin: printed from the code by `python -m tools.docs` -->", "<!-- end: printed from the code -->"
COMMON = {Group.RUNS, Group.LAST, Group.ACTIVE, Group.FABRIC, Group.SCHEDULE}  # all of these have namespace and series


def metrics_page(text: str) -> str:
    """The page with new lists of all families, in the groups and order of the code."""
    return between(text, BEGIN, END, "\n\n".join(block for group in Group for block in _group(group)))


def _group(group: Group) -> Iterator[str]:
    yield f"### {group.value}"
    yield bullets((_name(family), family.meaning) for family in in_group(group))


def _name(family: Family) -> str:
    labels = ",".join(family.labels[len(SERIES) if family.group in COMMON else 0 :])
    name = f"`{family.shown_name}{{{labels}}}`" if labels else f"`{family.shown_name}`"
    return f"{name} (histogram)" if family.type is FamilyType.HISTOGRAM else name
