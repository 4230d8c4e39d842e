"""Rules of users in the operator's configuration: a pattern in a log, or a condition of a node or pod, gives a verdict.

They only apply to runs that did not pass. The first rule that matches decides, those of users before built-in ones.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.api import schema
from disttest_operator.core.api.schema import Object, Text
from disttest_operator.core.observed.objects import ConditionStatus

PROBES = ("", " ", "a b")  # a pattern with an empty match in one of them matches every line


class PatternError(ValueError):
    """The message states what to write instead."""


@dataclass(frozen=True, slots=True)
class LogPattern:
    """Raises PatternError for a text that is not a regular expression, or that matches every line."""

    text: str
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        import re2  # noqa: PLC0415  # the command line imports the table of flags too, and is installed without re2

        options = re2.Options()
        options.log_errors = False  # PatternError has them
        try:
            compiled = re2.compile(self.text, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise PatternError(f"is not a valid RE2 regular expression ({_words(error)}); correct it") from error
        for probe in PROBES:
            found = compiled.search(probe)
            if found and not found.group():
                raise PatternError(
                    "matches the empty text, and therefore every line; add text that a line must contain"
                )
        object.__setattr__(self, "_compiled", compiled)

    def is_in(self, line: str) -> bool:
        return self._compiled.search(line.encode(errors="replace")) is not None


def _words(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.decode(errors="replace") if isinstance(first, bytes) else str(error)


FILE_BYTES = 1 << 18
RULES = 256
VERDICTS = (Verdict.INFRA_FAILED, Verdict.ERRORED, Verdict.TESTS_FAILED)
# The two omitted ones are not failures.
REASONS = tuple(reason for reason in Reason if reason not in {Reason.ALL_CASES_PASSED, Reason.CANCELLED})
SOURCES = ("logPattern", "nodeCondition", "podCondition")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionSign:
    """A condition of a pod of the gang, or with `of_node` of the node that it runs on; an empty reason matches any."""

    of_node: bool
    type: str
    status: ConditionStatus
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRule:
    """`retry`: the run gets another attempt. `blame`: that attempt avoids the nodes with this sign."""

    sign: LogPattern | ConditionSign
    verdict: Verdict = Verdict.INFRA_FAILED
    reason: Reason
    retry: bool = True
    blame: bool = False
    message: str = ""


class InvalidRulesError(ValueError):
    """The text is not a list of rules; each problem names the entry and what to write instead."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


_CONDITION_TYPE = Text(
    min_length=1,
    max_length=316,
    pattern=schema.QUALIFIED_NAME,
    advice="write the type of a condition, like GpuMemWatch or example.com/Healthy",
)
_CONDITION_REASON = Text(
    min_length=1,
    max_length=1024,
    pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    advice="write the reason of a condition, like KernelHasNoDeadlock, or omit it",
)


def _condition(*statuses: ConditionStatus) -> Object:
    status = Text(max_length=7, choices=statuses)
    fields = {"type": _CONDITION_TYPE, "status": status, "reason": _CONDITION_REASON}
    return Object(required=("type", "status"), fields=fields)


_TRUTH = Text(max_length=5, choices=("true", "false"))
ENTRY = Object(
    required=("reason",),
    fields={
        "logPattern": Text(min_length=1, max_length=512),
        "nodeCondition": _condition(*ConditionStatus),
        "podCondition": _condition(ConditionStatus.TRUE, ConditionStatus.FALSE),  # unknown ones are not kept
        "verdict": Text(max_length=16, choices=VERDICTS),
        "reason": Text(max_length=64, choices=REASONS),
        "retry": _TRUTH,
        "blame": _TRUTH,
        "message": Text(min_length=1, max_length=512),
    },
)


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys, of which YAML would only keep the last one."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    for number, key in enumerate(keys):
        if key in keys[:number]:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is written twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def parse(text: str) -> tuple[UserRule, ...]:
    """The rules of a YAML file, in its order. Raises InvalidRulesError with all problems."""
    if len(text.encode(errors="replace")) > FILE_BYTES:
        raise InvalidRulesError([f"the file is too large; it must have at most {FILE_BYTES} bytes"])
    try:
        entries = yaml.load(text, Loader=_Loader)  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidRulesError([f"the file is not valid YAML: {' '.join(str(error).split())}"]) from error
    return build(entries)


def build(entries: Any) -> tuple[UserRule, ...]:
    """The rules of parsed YAML. Raises InvalidRulesError with all problems."""
    if not isinstance(entries, list) or len(entries) > RULES:
        raise InvalidRulesError([f"must be a list of at most {RULES} rules, each starting with '- '"])
    prepared = [schema.normalise(entry) for entry in entries]
    problems = [problem for number, entry in enumerate(prepared, start=1) for problem in _problems(entry, number)]
    if problems:
        raise InvalidRulesError(problems)
    return tuple(_rule(entry) for entry in prepared)


def _problems(entry: Any, number: int) -> Iterator[str]:
    path = f"entry {number}"
    if not isinstance(entry, Mapping):
        yield f"{path}: must be a mapping with one of {', '.join(SOURCES)}, and reason"
        return
    yield from schema.check(ENTRY, _with_words(entry), path)
    found = [source for source in SOURCES if source in entry]
    if len(found) != 1:
        yield f"{path}: must have exactly one of {', '.join(SOURCES)}, not {' and '.join(found) or 'none'}"
    pattern = entry.get("logPattern")
    if pattern and isinstance(pattern, str):
        try:
            LogPattern(pattern)
        except PatternError as error:
            yield f"{path}.logPattern: {error}"


def _with_words(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Booleans as texts: YAML reads both `status: True` and `retry: yes` as booleans."""
    words = dict(entry)
    for key in ("retry", "blame"):
        if isinstance(words.get(key), bool):
            words[key] = str(words[key]).lower()
    for key in ("nodeCondition", "podCondition"):
        condition = words.get(key)
        if isinstance(condition, Mapping) and isinstance(condition.get("status"), bool):
            words[key] = {**condition, "status": str(condition["status"])}
    return words


def _rule(entry: Mapping[str, Any]) -> UserRule:
    words = _with_words(entry)
    verdict = Verdict(words.get("verdict", Verdict.INFRA_FAILED))
    by_default = "true" if verdict is Verdict.INFRA_FAILED else "false"
    return UserRule(
        sign=_sign(words),
        verdict=verdict,
        reason=Reason(words["reason"]),
        retry=words.get("retry", by_default) == "true",
        blame=words.get("blame", "false") == "true",
        message=words.get("message", ""),
    )


def _sign(words: Mapping[str, Any]) -> LogPattern | ConditionSign:
    if "logPattern" in words:
        return LogPattern(words["logPattern"])
    of_node = "nodeCondition" in words
    condition = words["nodeCondition" if of_node else "podCondition"]
    status, reason = ConditionStatus(condition["status"]), condition.get("reason", "")
    return ConditionSign(of_node=of_node, type=condition["type"], status=status, reason=reason)
