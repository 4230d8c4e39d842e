"""The HTML page: its data and the template environment."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from disttest_cli.formats import advice, values
from disttest_cli.formats.html.cases import SIGNS, FailureSection, failures, grid
from disttest_cli.formats.html.facts import attempts, environment, suspects
from disttest_cli.formats.html.plots import bandwidth, speed
from disttest_cli.formats.html.timeline import timeline
from disttest_cli.formats.subject import Subject
from disttest_contract.outcomes import BAD, WORST_FIRST, Outcome, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting
from disttest_contract.text.formatting import show_bytes

ROWS = 30_000  # of the table of all cases
CHUNK = 100  # rows that a browser lays out together when they become visible
SLOWEST = 10
PACKAGE = "disttest_cli.formats.html"
TONES = {Verdict.PASSED: "good", Verdict.CANCELLED: "calm"}  # all others are bad
FLAKY = "The case failed and passed in a rerun. It counts as passed."
QUARANTINED = "The case failed, but it is in quarantine and does not change the verdict."
Row = tuple[str, CaseResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A part of all cases; `kind` is an outcome, flaky or quarantined, and `meaning` its explanation."""

    kind: str
    label: str
    number: int
    meaning: str
    x: float = 0.0  # position in the bar in percent; 0 for flaky and quarantined
    width: float = 0.0


def render(subject: Subject) -> str:
    report = subject.report
    shown = failures(report)
    style, script = _asset("page.css"), _asset("page.js")
    rows, left_out = all_cases(report)
    page = _environment().get_template("page.html")
    return page.render(
        policy=_policy(style, script),
        style=Markup(style),  # noqa: S704  # our own file
        script=Markup(script),  # noqa: S704  # our own file
        report=report,
        tone=TONES.get(report.verdict, "bad"),
        advice=advice.for_report(report),
        verdict_meaning=report.verdict.description,
        reason_meaning=report.reason.description,
        duration=values.duration(report.finished - report.started),
        started=values.show_moment(report.started),
        counts=counts(report),
        shown=shown,
        at_fault=_at_fault(report),
        timeline=timeline(subject),
        grid=grid(report),
        bandwidth=bandwidth(report),
        environment=environment(report),
        transport=values.transport(report),
        attempts=attempts(subject),
        suspects=suspects(subject),
        slowest=slowest(report),
        chunks=list(_chunks(rows, shown)),
        rows=len(rows),
        rows_left_out=left_out,
        missing=sum(suite.left_out.counts.total for suite in report.suites),
        red_missing=sum(suite.left_out.counts.red for suite in report.suites),
    )


def counts(report: Report) -> tuple[Count, ...]:
    counted, found, x = report.counts, [], 0.0
    for outcome in WORST_FIRST:
        if number := counted[outcome]:
            width = number / counted.total * 100
            found.append(
                Count(
                    kind=outcome.value,
                    label=label(outcome),
                    number=number,
                    meaning=outcome.description,
                    x=round(x, 3),
                    width=round(width, 3),
                )
            )
            x += width
    parts = (("flaky", counted.flaky, FLAKY), ("quarantined", counted.quarantined, QUARANTINED))
    return (
        *found,
        *(Count(kind=kind, label=kind, number=number, meaning=words) for kind, number, words in parts if number),
    )


def label(outcome: str) -> str:
    return "not run" if outcome == Outcome.NOT_RUN else outcome


def all_cases(report: Report) -> tuple[list[Row], int]:
    """Rows in the order of the run, and the number of omitted ones: the last passed ones if there are too many."""
    rows = [(suite.name, case) for suite in report.suites for case in suite.cases]
    if len(rows) <= ROWS:
        return rows, 0
    room = max(0, ROWS - sum(case.outcome in BAD for _, case in rows))
    kept: list[Row] = []
    for row in rows:
        is_bad = row[1].outcome in BAD
        if is_bad or room > 0:
            kept.append(row)
            room -= not is_bad
    return kept[:ROWS], len(rows) - len(kept[:ROWS])


def slowest(report: Report) -> list[Row]:
    rows = [(suite.name, case) for suite in report.suites for case in suite.cases if values.known(case.seconds)]
    return sorted(rows, key=lambda row: -row[1].seconds)[:SLOWEST]


def _chunks(rows: Sequence[Row], shown: FailureSection) -> Iterator[list[tuple[str, CaseResult, int]]]:
    places = shown.places
    for first in range(0, len(rows), CHUNK):
        yield [(suite, case, places.get(id(case), 0)) for suite, case in rows[first : first + CHUNK]]


def _at_fault(report: Report) -> list[str]:
    names = dict(enumerate(report.node_names))
    return [names.get(index, f"node index {index}") for index in report.at_fault]


def _policy(style: str, script: str) -> str:
    """Content-Security-Policy: no network and no other scripts, even if a forged report were not escaped."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    return resources.files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


def clean(value: object) -> object:
    """Escape text that goes into a page, except markup of this module."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escaping.block(value)
    return value


@cache
def _environment() -> Environment:
    """Sanitizes and escapes all output of templates."""
    made = Environment(
        loader=PackageLoader(PACKAGE, ""),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "seconds": values.duration,
        "known": values.known,
        "first_line": formatting.summary_line,
        "count": values.count,
        "rank_list": partial(values.rank_list, limit_bytes=values.PAGE_RANKS_BYTES),
        "outcome": label,
        "bytes": show_bytes,
        "speed": speed,
    }
    made.globals |= {
        "where": partial(values.where, limit_bytes=values.PAGE_RANKS_BYTES),
        "SIGNS": SIGNS,
        "BAD": BAD,
    }
    return made
