"""Cases for other tools: file, classes and name from the id; a title of one line, and a text with all details."""

from collections.abc import Mapping
from dataclasses import dataclass

from disttest_cli.formats import values
from disttest_contract.results.case_result import CaseResult, Earlier
from disttest_contract.text import escaping, formatting

NAME_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseName:
    file: str
    classes: tuple[str, ...]
    name: str


def split_id(case_id: str) -> CaseName:
    """`a/b.py::TestC::test_d[e::f]` is name `test_d[e::f]` of the class TestC in a/b.py."""
    head, bracket, parameters = escaping.short_line(case_id, NAME_BYTES).partition("[")
    *path, name = head.split("::")
    name = f"{name}{bracket}{parameters}" or "(without a name)"
    if path and path[0].endswith(".py"):
        return CaseName(file=path[0], classes=tuple(path[1:]), name=name)
    return CaseName(file="", classes=tuple(path), name=name)


def class_name(suite: str, case: CaseName) -> str:
    """Dotted like pytest's, with the suite as prefix, so that suites do not share a class."""
    module = case.file.removesuffix(".py").replace("/", ".").strip(".")
    return ".".join(part for part in (suite_name(suite), module, *case.classes) if part)


def suite_name(suite: str) -> str:
    return escaping.short_line(suite, NAME_BYTES) or "(without a name)"


TITLE_BYTES = 400
BODIES_BYTES = 12 << 20  # for all cases of a document: GitLab reads JUnit files of up to 30 MB
LARGEST_BODY_BYTES = 64 << 10
SMALLEST_BODY_BYTES = 512


def body_limit(count: int) -> int:
    """Size limit in bytes of each body in a document with `count` bodies."""
    return max(SMALLEST_BODY_BYTES, min(LARGEST_BODY_BYTES, BODIES_BYTES // max(1, count)))


def ending(case: CaseResult) -> str:
    """`failed after 3.41 s: rank 11 on gpu-node-23`."""
    how = case.signal or (f"exit code {case.exit_code}" if case.exit_code is not None else "")
    details = ", ".join(part for part in (values.where(case.ranks, case.nodes), escaping.short_line(how, 64)) if part)
    return f"{case.ending} after {values.seconds(case.seconds):.2f} s" + (f": {details}" if details else "")


def title(message: str, otherwise: str) -> str:
    """The first line of a message, followed by the exception if that line names only the rank."""
    first = formatting.summary_line(message)
    return escaping.short_line(first, TITLE_BYTES) if first else otherwise


def case_title(case: CaseResult) -> str:
    return title(case.message, ending(case))


def case_body(case: CaseResult, limit_bytes: int) -> str:
    """Message, results by rank, diagnosis, stacks, logs and earlier tries; a text that is too long loses its end."""
    parts = [case.message.strip() or ending(case), *_groups(case), *_diagnosis(case), *_stacks("stacks", case.stacks)]
    if case.diagnosis:
        parts += _stacks("stacks with C frames", case.diagnosis.native)
        parts += [f"NCCL's RAS status:\n{case.diagnosis.ras.strip()}"] if case.diagnosis.ras else []
    parts += logs_of(case)
    parts += [earlier_body(number, one) for number, one in enumerate(case.earlier, start=1)]
    return escaping.short_block("\n\n".join(parts), limit_bytes)


def logs_of(case: CaseResult) -> list[str]:
    return _stacks("log records and warnings", case.logs)


def earlier_body(number: int, one: Earlier) -> str:
    who = values.where(one.ranks, one.nodes)
    head = f"try {number}: {one.outcome.value} after {values.seconds(one.seconds):.2f} s" + (f": {who}" if who else "")
    return "\n".join([head, *_indented(one.message)])


def _groups(case: CaseResult) -> list[str]:
    if not case.by_rank:
        return []
    lines = ["by rank:"]
    for group in case.by_rank:
        news = "" if group.message.strip() in case.message else group.message
        lines += [f"  {values.rank_list(group.ranks) or 'no rank'}: {group.ending.value}", *_indented(news, "      ")]
    return ["\n".join(lines)]


def _diagnosis(case: CaseResult) -> list[str]:
    if case.diagnosis is None:
        return []
    found, lines = case.diagnosis, []
    if found.summary and found.summary not in case.message:
        lines.append(found.summary)
    lines += [f"  {values.rank_list(who)}: {state}" for state, who in values.grouped(found.states.items()).items()]
    lines += [f"artifacts: {found.artifacts}"] if found.artifacts else []
    return ["\n".join(lines)] if lines else []


def _stacks(what: str, texts: Mapping[int, str]) -> list[str]:
    return [
        f"{what} of {values.rank_list(who)}:\n{text.strip()}" for text, who in values.grouped(texts.items()).items()
    ]


def _indented(text: str, by: str = "    ") -> list[str]:
    return [f"{by}{line}" for line in text.strip().splitlines()]
