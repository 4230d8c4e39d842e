"""What a gang is told to do: the operator (or `disttest run`) writes it, agents read it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from disttest_contract.results.thresholds import Threshold

SCHEMA = 1
FOR_EVER = 0  # in place of a number of repetitions
OPTIONAL = ("thresholds", "repeat", "until_fail")  # not written where they say nothing
LOCAL_UID = "local"  # of a run that no API server knows
UPSTREAM_ROOT = "/opt/pytorch"  # of the runner image: what a suite's files are relative to


class InvalidPlanError(ValueError):
    """The plan cannot be read: operator and runner do not fit together, or somebody set its variable by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlan:
    """One suite with one source: a suite of the runner, a directory of test files, or files below a root.

    `files` are globs relative to `root`, or names of the only files in `directory` that hold cases; `select` is an
    expression of pytest's -k, `env` holds (name, value), `quarantine` patterns of cases that are known to fail. `cases`
    are ids: where there are any, no other case runs, and one that does not exist breaks the suite. `in_repository`
    says that `directory` is a part of a source tree: pytest looks for its configuration and conftest.py above it too.
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
        """Without fields that came later and are empty, as they are nearly always: older runners do not know them."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: value
            for name, value in fields.items()
            if value or name not in ("quarantine", "cases", "in_repository")
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One attempt of one run. Seconds are whole; `series` may be empty.

    `flaky_retries` says how often a case that ended badly is tried again, `artifacts` is a directory for what is too
    large for the report, or empty; `thresholds` is what measured bandwidths must reach. `repeat` says how often the
    cases of each suite run, or FOR_EVER; with `until_fail` the first that ends badly is the last.
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
    join_seconds: int
    case_seconds: int
    run_seconds: int
    flaky_retries: int = 0
    artifacts: str = ""
    thresholds: tuple[Threshold, ...] = ()
    repeat: int = 1
    until_fail: bool = False

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def to_json(self) -> str:
        """One line."""
        fields = {
            "schema": SCHEMA,
            **{name: getattr(self, name) for name in self.__slots__ if name not in ("suites", *OPTIONAL)},
            "suites": [suite.to_json() for suite in self.suites],
        }
        if self.thresholds:
            fields["thresholds"] = [one.to_json() for one in self.thresholds]
        if self.repeat != 1 or self.until_fail:
            fields |= {"repeat": self.repeat, "until_fail": self.until_fail}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a plan; unknown keys are ignored, missing or wrong ones raise InvalidPlanError."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidPlanError(f"the plan is not JSON: {error}") from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise InvalidPlanError(f"the plan is not of schema {SCHEMA}: operator and runner image do not fit together")
        suites = tuple(_suite(entry) for entry in _value(data, "suites", list))
        strings = {key: _value(data, key, str) for key in ("namespace", "name", "uid", "series", "backend")}
        numbers = {
            key: _value(data, key, int)
            for key in ("attempt", "nodes", "ranks_per_node", "join_seconds", "case_seconds", "run_seconds")
        }
        return cls(
            **strings,
            **numbers,
            spread=_value(data, "spread", bool),
            suites=suites,
            flaky_retries=_value(data, "flaky_retries", int),
            artifacts=_value(data, "artifacts", str),
            thresholds=tuple(_threshold(entry) for entry in _value({"thresholds": [], **data}, "thresholds", list)),
            repeat=_value({"repeat": 1, **data}, "repeat", int),
            until_fail=_value({"until_fail": False, **data}, "until_fail", bool),
        )


def _threshold(entry: object) -> Threshold:
    try:
        return Threshold.from_json(entry)  # type: ignore[arg-type]  # what is no mapping raises too
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidPlanError(f"the plan's 'thresholds' hold {entry!r:.200}") from error


def _suite(entry: object) -> SuitePlan:
    if not isinstance(entry, dict):
        raise InvalidPlanError(f"a suite of the plan is {entry!r}, not an object")
    strings = {key: _value(entry, key, str) for key in ("name", "builtin", "directory", "root", "select")}
    files, env = _value(entry, "files", list), _value(entry, "env", list)
    quarantine, cases = (_value({key: [], **entry}, key, list) for key in ("quarantine", "cases"))
    for key, patterns in (("files", files), ("quarantine", quarantine), ("cases", cases)):
        if not all(isinstance(pattern, str) for pattern in patterns):
            raise InvalidPlanError(f"the plan's {key!r} are {patterns!r}, expected strings")
    if not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in env
    ):
        raise InvalidPlanError(f"the plan's 'env' is {env!r}, expected pairs of strings")
    return SuitePlan(
        **strings,
        files=tuple(files),
        env=tuple((name, value) for name, value in env),
        quarantine=tuple(quarantine),
        cases=tuple(cases),
        in_repository=_value({"in_repository": False, **entry}, "in_repository", bool),
    )


def _value(data: Mapping[str, Any], key: str, kind: type) -> Any:
    value = data.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidPlanError(f"the plan's {key!r} is {value!r}, expected {kind.__name__}")
    return value
