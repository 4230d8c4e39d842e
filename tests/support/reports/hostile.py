"""A report forged by test code: all its texts and numbers are hostile.

`forbidden` finds text that must not reach users. It checks what users see, not how the product escapes it.
"""

import dataclasses
import json
import re
import unicodedata
from typing import Any

from disttest_cli.formats.subject import Subject
from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult, Diagnosis, Earlier, RankEnding, RankGroup
from disttest_contract.results.measurement import Measurement
from tests.support.reports import report_samples
from tests.support.reports.reports import FACTS, a_report, a_suite

SCRIPT = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
ESCAPES = "\x1b[2J\x1b[31mred\x1b]0;owned\x07 null\x00 back\x08\x7f\x9b31m"
BIDI = "user\u202etxt.exe\u202c \u2066hidden\u2069 zero\u200bwidth\ufeff"
QUOTES = "' onmouseover='document.title=1' \" style=\"background:url(https://example.invalid/x)\" ]]> --> {{ 7 * 7 }}"
LONE = "half \ud800 a pair"
UNSEEN = "filler\u3164 blank\u2800 joiner\u034f tag\U000e0041 none\uffff \u2028\u2029\x85 private\ue000"
ZALGO = "z" + "\u0301\u0489" * 40
LINK = "\x1b]8;;https://example.invalid/\x1b\\click\x1b]8;;\x1b\\"
COMMANDS = (
    "##[error]owned ##vso[task.setvariable variable=PATH]/tmp ##teamcity[buildStatus text='owned']\n"
    "::error file=a.py,line=1::owned\r\n  ::set-output name=x::owned\r::stop-commands::owned\x0b::add-mask::1\n"
    "section_start:1:owned[collapsed=true]\r\x1b[0Kowned"
)
MARKDOWN = "``` ~~~ @everyone [a](https://example.invalid) ![b](https://example.invalid) |a|b| <h1>c</h1> #1\n# d\n- e"
FORMULA = "=HYPERLINK(1)"
NASTY = f"{SCRIPT} {ESCAPES} {BIDI} {QUOTES} {LONE} {UNSEEN} {ZALGO} {LINK} {COMMANDS} {MARKDOWN} {FORMULA}"
ARGUMENT = NASTY.replace("\0", "").replace("\ud800", "\udcff")  # as Python has bytes that are no UTF-8
STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # what obeys, hides, is half a character or none
FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U000e0100")
PAINT = re.compile(r"^[\u0300-\u036f]|(?:[\u0300-\u036f\u0483-\u0489]){5}", re.MULTILINE)
OBEYED = re.compile(r"^\s*::|##(?:vso|teamcity)?\[", re.MULTILINE)  # by GitHub, Azure, TeamCity


def forbidden(text: str) -> list[str]:
    """What of a text would steer a terminal, a reader or a CI system; line feeds and tabs are of its form."""
    unseen = {one for one in text if one not in "\n\t" and (unicodedata.category(one) in STEERING or one in FILLERS)}
    return [*map(ascii, sorted(unseen)), *PAINT.findall(text), *OBEYED.findall(text)]


def a_hostile_subject() -> Subject:
    """Of what a report and a status may hold, all that is text."""
    group = RankGroup(ranks=(0, 999), ending=RankEnding.FAILED, message=NASTY)
    case = CaseResult(
        id=f"t.py::{NASTY}",
        outcome=Outcome.HUNG,
        seconds=float("nan"),
        at=float("inf"),
        message=NASTY + "x" * 5000,
        ranks=(0, -3, 70000),
        nodes=(NASTY,),
        by_rank=(group, dataclasses.replace(group, ranks=(1,), ending=RankEnding.PASSED)),
        signal=NASTY,
        exit_code=NASTY,  # type: ignore[arg-type]  # a reader takes what it finds
        stacks={0: NASTY, 70000: NASTY},
        logs={0: NASTY, 70000: NASTY},
        diagnosis=Diagnosis(summary=NASTY, states={0: NASTY}, native={1: NASTY}, ras=NASTY, artifacts=NASTY),
        earlier=(Earlier(outcome=Outcome.FAILED, seconds=-1.0, message=NASTY, ranks=(1,), nodes=(NASTY,)),),
        measurements=tuple(_measurement(bus) for bus in (float("nan"), float("inf"), -1.0, 0.0, 1e300)),
    )
    facts = dataclasses.replace(FACTS, node_name=NASTY, gpus=(NASTY,), driver=NASTY, versions={NASTY: NASTY})
    report = a_report(
        a_suite(NASTY, [case, dataclasses.replace(case, at=-5.0, seconds=1e300)], message=NASTY),
        namespace=NASTY,
        name=NASTY,
        uid=NASTY,
        series=NASTY,
        backend=NASTY,
        node_names=(NASTY, NASTY),
        versions={NASTY: NASTY},
        settings={NASTY: NASTY},
        message=NASTY,
        started=-1e300,
        joined=float("nan"),
        first_case=float("inf"),
        finished=1e300,
        preflight=(facts, FACTS),
        trimmed=NASTY,
    )
    return Subject(report=report, status=_status())


def _measurement(bus: float) -> Measurement:
    return Measurement(
        collective=NASTY,
        dtype=NASTY,
        size_bytes=1 << 70,
        ranks=-1,
        iterations=0,
        seconds=bus,
        fastest_rank_seconds=bus,
        slowest_rank_seconds=bus,
        slowest_rank=70000,
        alg_bytes_per_second=bus,
        bus_bandwidth_bytes_per_second=bus,
        wrong_elements=-1,
    )


def _status() -> dict[str, Any]:
    attempt = {"number": NASTY, "verdict": NASTY, "reason": NASTY, "message": NASTY, "nodes": [NASTY]}
    return {
        "stepSeconds": {NASTY: 1.0, "queued": float("nan"), "ran": -3.0},
        "attempts": [attempt | {"firstFailure": {"node": NASTY, "message": NASTY}, "startTime": NASTY}],
        "suspectNodes": [{"name": NASTY, "reason": NASTY, "evidence": NASTY}],
    }


# What programs go by: closed sets, times, and what the API server or the operator made.
CLOSED = ("apiVersion", "ending", "kind", "outcome", "phase", "reason", "schema", "type", "verdict")
TIMES = ("completionTime", "creationTimestamp", "lastTimestamp", "startTime", "time")
STRUCTURE = frozenset((*CLOSED, *TIMES, "resourceVersion", "uid"))


def poisoned(value: Any, *keep: str) -> Any:
    """All texts are hostile, except STRUCTURE and the values of the keys in `keep`."""
    if isinstance(value, dict):
        return {key: one if key in STRUCTURE or key in keep else poisoned(one, *keep) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [poisoned(one, *keep) for one in value]
    return NASTY if isinstance(value, str) else value


def a_hostile_file() -> bytes:
    """A report that can be read, with every text that it may hold."""
    raw = json.loads(report_samples.each(trimmed="x", at_fault=(1,)).dumps())
    for suite in raw["suites"]:
        for case in suite["cases"]:
            case |= {"message": "", "signal": "", "nodes": [""], "stacks": {"0": ""}}
    return json.dumps(poisoned(raw, "ranks")).encode()
