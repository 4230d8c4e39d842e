"""JUnit XML as GitHub's actions, GitLab and Jenkins read it: docs/results/reports.md describes the mapping."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from disttest_cli.formats import case_text, test_status, values
from disttest_cli.formats.subject import Subject
from disttest_cli.formats.test_status import Notice, TestStatus
from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.text import escaping, formatting

RUN_SUITE = "disttest"  # suite of the run's own result
EXPECTED_FAILURE = "pytest.xfail"  # pytest's type
PROPERTY_BYTES = 1024
VERSIONS = 32


@dataclass(slots=True)
class Names:
    """Makes names unique, since GitLab drops the second test of a name."""

    seen: Counter[tuple[str, str]]

    def unique(self, class_name: str, name: str) -> str:
        self.seen[class_name, name] += 1
        number = self.seen[class_name, name]
        return name if number == 1 else self.unique(class_name, f"{name} ({number})")


def render(subject: Subject) -> str:
    report = subject.report
    limit_bytes = case_text.body_limit(
        sum(len(suite.cases) for suite in report.suites if suite.counts.bad) + len(report.interrupted)
    )
    taken = Names(Counter())
    root = ET.Element("testsuites", name=case_text.suite_name(f"{report.namespace}/{report.name}"))
    _stamp(root, report.started)
    for place, suite in enumerate(report.suites):
        root.append(_suite(report, suite, place, taken, limit_bytes))
    if notice := test_status.of_run(report):
        root.append(_run(report, notice))
    _sum_up(root, list(root), report.finished - report.started)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False, short_empty_elements=True).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _suite(report: Report, suite: SuiteResult, place: int, taken: Names, limit_bytes: int) -> ET.Element:
    element = _new_suite(report, case_text.suite_name(suite.name), _started(report, suite))
    element.set("id", str(place))
    details = {"verdict": suite.verdict.value, "reason": suite.reason.value, "message": suite.message}
    _add_properties(element, _facts(report) | {f"suite.{key}": value for key, value in details.items()})
    cases = [_case(suite, case, taken, limit_bytes) for case in suite.cases]
    notices = test_status.of_left_out(suite), test_status.of_suite(suite)
    cases += [_notice(case_text.suite_name(suite.name), notice, taken) for notice in notices if notice]
    element.extend(cases)
    _sum_up(element, cases, suite.seconds)
    return element


def _run(report: Report, notice: Notice) -> ET.Element:
    element = _new_suite(report, RUN_SUITE, report.started)
    element.set("id", str(len(report.suites)))
    _add_properties(element, _facts(report))
    case = _notice(RUN_SUITE, notice, Names(Counter()))
    element.append(case)
    _sum_up(element, [case], 0.0)
    return element


def _new_suite(report: Report, name: str, started: float) -> ET.Element:
    element = ET.Element("testsuite", name=name)
    _stamp(element, started)
    if report.node_names:
        element.set("hostname", escaping.short_line(report.node_names[0], PROPERTY_BYTES))
    return element


def _stamp(element: ET.Element, seconds: float) -> None:
    """In UTC, since the format has no time zones."""
    if moment := values.moment(seconds):
        element.set("timestamp", moment.strftime("%Y-%m-%dT%H:%M:%S"))


def _started(report: Report, suite: SuiteResult) -> float:
    offset = next((case.at for case in suite.cases if case.at is not None), 0.0)
    return report.started + values.seconds(offset)


def _sum_up(element: ET.Element, parts: Sequence[ET.Element], seconds: float) -> None:
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for part in parts:
        if part.tag == "testcase":
            totals["tests"] += 1
            totals["failures"] += part.find("failure") is not None
            totals["errors"] += part.find("error") is not None
            totals["skipped"] += part.find("skipped") is not None
        else:
            totals = {key: count + int(part.get(key, "0")) for key, count in totals.items()}
    for key, count in totals.items():
        element.set(key, str(count))
    element.set("time", _time(seconds))


def _case(suite: SuiteResult, case: CaseResult, taken: Names, limit_bytes: int) -> ET.Element:
    known = case_text.split_id(case.id)
    class_name = case_text.class_name(suite.name, known)
    element = _new_case(class_name, taken.unique(class_name, known.name), case.seconds)
    if known.file:
        element.set("file", known.file)
    _add_properties(element, _marks(case))
    match test_status.of_case(case):
        case TestStatus.FAILURE | TestStatus.ERROR as bad:
            tag = "failure" if bad is TestStatus.FAILURE else "error"
            text = case_text.case_body(replace(case, logs={}), limit_bytes)
            _add(element, tag, case_text.case_title(case), kind=case.ending, text=text)
            if case.logs:
                ET.SubElement(element, "system-err").text = escaping.short_block(
                    "\n\n".join(case_text.logs_of(case)), limit_bytes
                )
        case TestStatus.SKIPPED:
            message = _why_skipped(case)
            kind = EXPECTED_FAILURE if case.outcome is Outcome.XFAILED else case.outcome.value
            _add(element, "skipped", message, kind=kind, text=message)
        case TestStatus.GOOD:
            _add_earlier(element, case, limit_bytes)
    return element


def _new_case(class_name: str, name: str, seconds: float) -> ET.Element:
    return ET.Element("testcase", classname=class_name, name=name, time=_time(seconds))


def _why_skipped(case: CaseResult) -> str:
    if case.is_excused:
        return f"in quarantine, {case_text.ending(case)}: {case_text.title(case.message, 'no message')}"
    words = {Outcome.NOT_RUN: "not run", Outcome.XFAILED: "failed as expected"}.get(case.outcome, "skipped")
    if case.outcome is Outcome.SKIPPED:
        return case_text.title(case.message, words)
    return f"{words}: {case_text.title(case.message, '')}" if case.message.strip() else words


def _add_earlier(element: ET.Element, case: CaseResult, limit_bytes: int) -> None:
    """Add earlier tries in Surefire's elements; readers that do not know them see a passed case."""
    for number, one in enumerate(case.earlier, start=1):
        if one.outcome in BAD:
            tag = "flakyFailure" if one.outcome is Outcome.FAILED else "flakyError"
            text = escaping.short_block(case_text.earlier_body(number, one), limit_bytes)
            _add(element, tag, case_text.title(one.message, one.outcome.value), kind=one.outcome.value, text=text)


def _notice(class_name: str, notice: Notice, taken: Names) -> ET.Element:
    element = _new_case(class_name, taken.unique(class_name, notice.name), 0.0)
    sentence = test_status.sentence(notice)
    if notice.is_bad:
        _add(element, "error", sentence, kind=notice.reason.value, text=_body(sentence, notice.message))
    elif notice.name == test_status.LEFT_OUT:
        _add(element, "skipped", notice.message, kind=notice.name, text=notice.message)
    return element


def _body(sentence: str, message: str) -> str:
    text = escaping.short_block(message.strip(), case_text.LARGEST_BODY_BYTES)
    return f"{sentence}\n\n{text}" if "\n" in text else sentence


def _add(element: ET.Element, tag: str, message: str, *, kind: str, text: str) -> None:
    part = ET.SubElement(element, tag, message=message, type=kind)
    part.text = text  # readers show the attribute, the text or both, so each is complete


def _facts(report: Report) -> dict[str, str]:
    """Facts of the run, which each suite repeats, since readers show those of suites."""
    facts = {
        "namespace": report.namespace,
        "run": report.name,
        "series": report.series,
        "attempt": str(report.attempt),
        "verdict": report.verdict.value,
        "reason": report.reason.value,
        "message": report.message,
        "backend": report.backend,
        "nodes": formatting.listed(report.node_names, VERSIONS),
        "world": f"{report.nodes} x {report.ranks_per_node}",
        "trimmed": report.trimmed,
    }
    facts |= {f"version.{key}": value for key, value in list(report.versions.items())[:VERSIONS]}
    return facts | {f"setting.{key}": value for key, value in list(report.settings.items())[:VERSIONS]}


def _marks(case: CaseResult) -> dict[str, str]:
    if case.outcome is Outcome.PASSED and not case.earlier:
        return {}
    return {
        "outcome": case.outcome.value,
        "rank": formatting.show_ranks(case.ranks),
        "node": formatting.listed(case.nodes, values.MOST_NODES),
        "flaky": "true" if case.is_flaky else "",
        "quarantined": "true" if case.quarantined else "",
    }


def _add_properties(element: ET.Element, values: dict[str, str]) -> None:
    known = [(key, escaping.short_line(value, PROPERTY_BYTES)) for key, value in values.items() if value]
    if known:
        parent = ET.SubElement(element, "properties")
        for key, value in known:
            ET.SubElement(parent, "property", name=f"disttest.{escaping.short_line(key, PROPERTY_BYTES)}", value=value)


def _time(seconds: float) -> str:
    return f"{values.seconds(seconds):.3f}"
