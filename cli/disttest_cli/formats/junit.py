"""JUnit XML as GitHub's actions, GitLab and Jenkins read it: docs/reports.md says what becomes of what. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from disttest_cli.formats import case_names, case_text, plain, test_status
from disttest_cli.formats.subject import Subject
from disttest_cli.formats.test_status import Notice, TestStatus
from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.text import formatting

RUN_SUITE = "disttest"  # where the run itself speaks
EXPECTED_FAILURE = "pytest.xfail"  # as pytest calls it
PROPERTY_BYTES = 1024
VERSIONS = 32


@dataclass(slots=True)
class Names:
    """Each name once: GitLab drops the second test of a name."""

    seen: Counter[tuple[str, str]]

    def own(self, class_name: str, name: str) -> str:
        self.seen[class_name, name] += 1
        number = self.seen[class_name, name]
        return name if number == 1 else self.own(class_name, f"{name} ({number})")


def render(subject: Subject) -> str:
    report = subject.report
    limit_bytes = case_text.body_limit(
        sum(len(suite.cases) for suite in report.suites if suite.counts.bad) + len(report.interrupted)
    )
    taken = Names(Counter())
    root = ET.Element("testsuites", name=case_names.suite_name(f"{report.namespace}/{report.name}"))
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
    element = _new_suite(report, case_names.suite_name(suite.name), _started(report, suite))
    element.set("id", str(place))
    details = {"verdict": suite.verdict.value, "reason": suite.reason.value, "message": suite.message}
    _add_properties(element, _facts(report) | {f"suite.{key}": value for key, value in details.items()})
    cases = [_case(suite, case, taken, limit_bytes) for case in suite.cases]
    notices = test_status.of_left_out(suite), test_status.of_suite(suite)
    cases += [_notice(case_names.suite_name(suite.name), notice, taken) for notice in notices if notice]
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
        element.set("hostname", plain.one_line(report.node_names[0], PROPERTY_BYTES))
    return element


def _stamp(element: ET.Element, seconds: float) -> None:
    """UTC; the format has no time zones."""
    if moment := plain.moment(seconds):
        element.set("timestamp", moment.strftime("%Y-%m-%dT%H:%M:%S"))


def _started(report: Report, suite: SuiteResult) -> float:
    """When its first case began, as far as that is known."""
    offset = next((case.at for case in suite.cases if case.at is not None), 0.0)
    return report.started + plain.seconds(offset)


def _sum_up(element: ET.Element, parts: Sequence[ET.Element], seconds: float) -> None:
    """Counts as attributes, of suites from their cases and of the whole from its suites."""
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
    known = case_names.split(case.id)
    class_name = case_names.class_name(suite.name, known)
    element = _new_case(class_name, taken.own(class_name, known.name), case.seconds)
    if known.file:
        element.set("file", known.file)
    _add_properties(element, _marks(case))
    match test_status.of_case(case):
        case TestStatus.FAILURE | TestStatus.ERROR as bad:
            tag = "failure" if bad is TestStatus.FAILURE else "error"
            text = case_text.case_body(replace(case, logs={}), limit_bytes)
            _add(element, tag, case_text.case_title(case), kind=case.ending, text=text)
            if case.logs:
                ET.SubElement(element, "system-err").text = plain.block(
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
        return f"in quarantine, {case_text.ending(case)}: {case_text.title(case.message, 'nothing more is known')}"
    words = {Outcome.NOT_RUN: "not run", Outcome.XFAILED: "failed as expected"}.get(case.outcome, "skipped")
    return case_text.title(case.message, words) if case.outcome is Outcome.SKIPPED else _with(words, case.message)


def _with(words: str, message: str) -> str:
    return f"{words}: {case_text.title(message, '')}" if message.strip() else words


def _add_earlier(element: ET.Element, case: CaseResult, limit_bytes: int) -> None:
    """Tries of a case that passed at last, in Surefire's words; readers that do not know these see that it passed."""
    for number, one in enumerate(case.earlier, start=1):
        if one.outcome in BAD:
            tag = "flakyFailure" if one.outcome is Outcome.FAILED else "flakyError"
            text = plain.block(case_text.earlier_body(number, one), limit_bytes)
            _add(element, tag, case_text.title(one.message, one.outcome.value), kind=one.outcome.value, text=text)


def _notice(class_name: str, notice: Notice, taken: Names) -> ET.Element:
    element = _new_case(class_name, taken.own(class_name, notice.name), 0.0)
    sentence = test_status.sentence(notice)
    if notice.is_bad:
        _add(element, "error", sentence, kind=notice.reason.value, text=_body(sentence, notice.message))
    elif notice.name == test_status.LEFT_OUT:
        _add(element, "skipped", notice.message, kind=notice.name, text=notice.message)
    return element


def _body(sentence: str, message: str) -> str:
    text = plain.block(message.strip(), case_text.LARGEST_BODY_BYTES)
    return f"{sentence}\n\n{text}" if "\n" in text else sentence


def _add(element: ET.Element, tag: str, message: str, *, kind: str, text: str) -> None:
    part = ET.SubElement(element, tag, message=message, type=kind)
    part.text = text  # readers show the attribute, the text or both: each has to be enough


def _facts(report: Report) -> dict[str, str]:
    """Of the run; the same for each suite, since readers look there."""
    facts = {
        "namespace": report.namespace,
        "run": report.name,
        "series": report.series,
        "attempt": str(report.attempt),
        "verdict": report.verdict.value,
        "reason": report.reason.value,
        "message": report.message,
        "backend": report.backend,
        "nodes": plain.listed(report.node_names, VERSIONS),
        "world": f"{report.nodes} x {report.ranks_per_node}",
        "trimmed": report.trimmed,
    }
    return facts | {f"version.{key}": value for key, value in list(report.versions.items())[:VERSIONS]}


def _marks(case: CaseResult) -> dict[str, str]:
    """Of a case that is not simply good."""
    if case.outcome is Outcome.PASSED and not case.earlier:
        return {}
    return {
        "outcome": case.outcome.value,
        "rank": formatting.show_ranks(case.ranks),
        "node": plain.listed(case.nodes, case_text.MOST_NODES),
        "flaky": "true" if case.is_flaky else "",
        "quarantined": "true" if case.quarantined else "",
    }


def _add_properties(element: ET.Element, values: dict[str, str]) -> None:
    known = [(key, plain.one_line(value, PROPERTY_BYTES)) for key, value in values.items() if value]
    if known:
        parent = ET.SubElement(element, "properties")
        for key, value in known:
            ET.SubElement(parent, "property", name=f"disttest.{plain.one_line(key, PROPERTY_BYTES)}", value=value)


def _time(seconds: float) -> str:
    return f"{plain.seconds(seconds):.3f}"
