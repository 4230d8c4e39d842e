"""The plan of a run: written by the operator or `disttest run`, read by agents."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from disttest_contract.results.network_transport import ANY
from disttest_contract.results.thresholds import Threshold

SCHEMA = 2
FOR_EVER = 0  # instead of a number of repetitions
OPTIONAL = ("thresholds", "repeat", "until_fail", "transport")  # omitted if they have their defaults
OPTIONAL_OF_SUITE = ("quarantine", "cases", "in_repository")  # likewise
LOCAL_UID = "local"  # of a run without an API server
UPSTREAM_ROOT = "/opt/pytorch"  # of the runner image: the root of a suite's files


class InvalidPlanError(ValueError):
    """The plan cannot be read: operator and runner have different versions, or its variable was set by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlan:
    """One suite with one source: a suite of the runner, a directory of test files, or files below a root.

    `files` are globs relative to `root`, or names of the files in `directory` to collect; `select` is a pytest -k
    expression, `env` are (name, value) pairs, `quarantine` are patterns of cases that are known to fail. If `cases` has
    ids, only these cases run, and an unknown id breaks the suite. With `in_repository`, `directory` is a part of a
    source tree: pytest searches its configuration and conftest.py in the folders above as well.
    """

    name: str
    builtin: str = ""
    directory: str = ""
    root: str = ""
    files: tuple[str, ...] = ()
    select: str = ""
    env: tuple[tuple[str, str], ...] = ()
    quarantine: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    in_repository: bool = False

    def to_json(self) -> dict[str, Any]:
        """Omit empty fields of later versions, which older runners do not know."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value or name not in OPTIONAL_OF_SUITE}

    @classmethod
    def from_json(cls, entry: object) -> Self:
        """Raises InvalidPlanError."""
        if not isinstance(entry, dict):
            raise InvalidPlanError(f"a suite of the plan is {entry!r}, not an object")
        entry = {"quarantine": [], "cases": [], "in_repository": False, **entry}
        plain = _plain_values(cls, entry)
        lists = {key: _value(entry, key, list) for key in ("files", "quarantine", "cases")}
        for key, patterns in lists.items():
            if not all(isinstance(pattern, str) for pattern in patterns):
                raise InvalidPlanError(f"the plan's {key!r} are {patterns!r}, expected strings")
        env = _value(entry, "env", list)
        if not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in env
        ):
            raise InvalidPlanError(f"the plan's 'env' is {env!r}, expected pairs of strings")
        tuples: dict[str, Any] = {key: tuple(patterns) for key, patterns in lists.items()}
        return cls(env=tuple((name, value) for name, value in env), **tuples, **plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One attempt of one run. Seconds are whole; `series` can be empty.

    `flaky_retries` limits the retries of a bad case; `artifacts` is a directory for data that is too large for the
    report, or empty. `repeat` is the number of times that the cases of each suite run, or FOR_EVER; with `until_fail`
    the first bad one ends the repetition. `transport` is the network that the run must use, or ANY.
    """

    namespace: str
    name: str
    uid: str
    series: str
    attempt: int
    nodes: int
    ranks_per_node: int
    backend: str  # nccl or gloo
    spread: bool  # two agents on one node are an error
    suites: tuple[SuitePlan, ...]
    rendezvous_seconds: int
    case_seconds: int
    run_seconds: int
    flaky_retries: int = 0
    artifacts: str = ""
    thresholds: tuple[Threshold, ...] = ()
    repeat: int = 1
    until_fail: bool = False
    transport: str = ANY

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def to_json(self) -> str:
        values = {
            "schema": SCHEMA,
            **{name: getattr(self, name) for name in self.__slots__ if name not in ("suites", *OPTIONAL)},
            "suites": [suite.to_json() for suite in self.suites],
        }
        if self.thresholds:
            values["thresholds"] = [one.to_json() for one in self.thresholds]
        if self.repeat != 1 or self.until_fail:
            values |= {"repeat": self.repeat, "until_fail": self.until_fail}
        if self.transport != ANY:
            values["transport"] = self.transport
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse a plan. Unknown keys are ignored; missing or wrong ones raise InvalidPlanError."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidPlanError(f"the plan is not JSON: {error}") from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise InvalidPlanError(
                f"the schema of the plan is not {SCHEMA}. Use operator and runner of the same version"
            )
        data = {"thresholds": [], "repeat": 1, "until_fail": False, "transport": ANY, **data}
        return cls(
            suites=tuple(map(SuitePlan.from_json, _value(data, "suites", list))),
            **_plain_values(cls, data),
            thresholds=tuple(_threshold(entry) for entry in _value(data, "thresholds", list)),
        )


def _threshold(entry: object) -> Threshold:
    try:
        return Threshold.from_json(entry)  # type: ignore[arg-type]  # raises for anything else than a mapping
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidPlanError(f"an entry of the plan's 'thresholds' is invalid: {entry!r:.200}") from error


def _plain_values(cls: type["RunPlan | SuitePlan"], data: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name: _value(data, one.name, one.type) for one in fields(cls) if one.type in (str, int, bool)}


def _value(data: Mapping[str, Any], key: str, kind: type) -> Any:
    value = data.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidPlanError(f"the plan's {key!r} is {value!r}, expected {kind.__name__}")
    return value
