"""The result of a check, and results as lines or as a document."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from disttest_cli.kube.client import KubeClient
from disttest_cli.views import terminal
from disttest_cli.views.terminal import Line
from disttest_contract.text import escaping, formatting


class CheckState(StrEnum):
    OK = "ok"
    WARNING = "warning"  # some features do not work
    PROBLEM = "problem"
    UNKNOWN = "not checked"


STYLES = {
    CheckState.OK: terminal.GOOD,
    CheckState.WARNING: terminal.WARNING,
    CheckState.PROBLEM: terminal.BROKEN,
    CheckState.UNKNOWN: terminal.QUIET,
}
STATE_WIDTH = max(map(len, CheckState)) + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`words` is the message; `advice` is the next step if the state is not OK."""

    name: str
    state: CheckState
    words: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNamespace:
    server: KubeClient
    namespace: str
    operator_namespace: str
    gpu_resource: str


def _one(state: CheckState, name: str, words: str, advice: str = "") -> list[Check]:
    return [Check(name=name, state=state, words=words, advice=advice)]


ok, warning, problem, unknown = (functools.partial(_one, state) for state in CheckState)


def lines(checks: Sequence[Check]) -> list[Line]:
    width = max((len(check.name) for check in checks), default=0) + 2
    shown = []
    for check in checks:
        head = (check.state.value.ljust(STATE_WIDTH), STYLES[check.state])
        shown.append(terminal.line(head, check.name.ljust(width), escaping.line(check.words)))
        if check.advice:
            shown.append(terminal.line(" " * (STATE_WIDTH + width), f"To do: {escaping.line(check.advice)}"))
    return [*shown, terminal.line(), terminal.line(_summary(checks))]


def document(checks: Sequence[Check]) -> dict[str, Any]:
    return {
        "checks": [
            {
                "name": one.name,
                "state": one.state.value,
                "message": one.words,
                **({"advice": one.advice} if one.advice else {}),
            }
            for one in checks
        ],
        "problems": count(checks, CheckState.PROBLEM),
    }


def count(checks: Iterable[Check], state: CheckState) -> int:
    return sum(check.state is state for check in checks)


def _summary(checks: Sequence[Check]) -> str:
    problems, warnings, unknowns = (
        count(checks, one) for one in (CheckState.PROBLEM, CheckState.WARNING, CheckState.UNKNOWN)
    )
    parts = [formatting.counted(problems, "problem") if problems else "no problems"]
    parts += [formatting.counted(warnings, "warning")] if warnings else []
    parts += [f"{unknowns} not checked"] if unknowns else []
    return ", ".join(parts)
