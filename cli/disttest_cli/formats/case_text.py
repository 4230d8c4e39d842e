"""What a case has to say when it did not simply pass: a title of one line, and all the rest as text. Pure."""

from collections.abc import Iterable, Mapping

from disttest_cli.formats import plain
from disttest_contract.results.case_result import CaseResult, Earlier, RankGroup
from disttest_contract.text import formatting

TITLE_BYTES = 400
MOST_NODES = 8
BODIES_BYTES = 12 << 20  # of all cases of a document: GitLab reads JUnit files of up to 30 MB
LARGEST_BODY_BYTES = 64 << 10
SMALLEST_BODY_BYTES = 512


def body_limit(count: int) -> int:
    """How much each of so many cases may say."""
    return max(SMALLEST_BODY_BYTES, min(LARGEST_BODY_BYTES, BODIES_BYTES // max(1, count)))


def where(ranks_: Iterable[int], nodes: Iterable[str]) -> str:
    """Rank 3 on node-a; empty where nobody is to blame."""
    who, names = formatting.show_ranks(ranks_), [plain.one_line(node, 64) for node in nodes]
    parts = (f"rank{'s' if not who.isdecimal() else ''} {who}" if who else "", plain.listed(names, MOST_NODES))
    return " on ".join(part for part in parts if part)


def ending(case: CaseResult) -> str:
    """Failed after 3.41 s: rank 11 on gpu-node-23."""
    how = case.signal or (f"exit code {case.exit_code}" if case.exit_code is not None else "")
    details = ", ".join(part for part in (where(case.ranks, case.nodes), plain.one_line(how, 64)) if part)
    return f"{case.ending} after {plain.seconds(case.seconds):.2f} s" + (f": {details}" if details else "")


def title(message: str, otherwise: str) -> str:
    """The line of a message that says most: its first one, and where that only says who, what was raised too."""
    said = formatting.who_and_what(message)
    return plain.one_line(said, TITLE_BYTES) if said else otherwise


def case_title(case: CaseResult) -> str:
    return title(case.message, ending(case))


def case_body(case: CaseResult, limit_bytes: int) -> str:
    """The most telling first: what is too long loses its end."""
    parts = [case.message.strip() or ending(case), *_groups(case), *_diagnosis(case), *_stacks("stacks", case.stacks)]
    if case.diagnosis:
        parts += _stacks("stacks with C frames", case.diagnosis.native)
        parts += [f"NCCL's own account:\n{case.diagnosis.ras.strip()}"] if case.diagnosis.ras else []
    parts += logs_of(case)
    parts += [earlier_body(number, one) for number, one in enumerate(case.earlier, start=1)]
    return plain.block("\n\n".join(parts), limit_bytes)


def logs_of(case: CaseResult) -> list[str]:
    return _stacks("log records and warnings", case.logs)


def earlier_body(number: int, one: Earlier) -> str:
    who = where(one.ranks, one.nodes)
    head = f"try {number}: {one.outcome.value} after {plain.seconds(one.seconds):.2f} s" + (f": {who}" if who else "")
    return "\n".join([head, *_indented(one.message)])


def _groups(case: CaseResult) -> list[str]:
    if not case.by_rank:
        return []
    lines = ["by rank:"]
    for group in case.by_rank:
        lines += [f"  {_who(group)}: {group.ending.value}", *_indented(_news(group, case.message), "      ")]
    return ["\n".join(lines)]


def _who(group: RankGroup) -> str:
    return where(group.ranks, ()) or "no rank"


def _news(group: RankGroup, message: str) -> str:
    """What the case's message does not say already."""
    return "" if group.message.strip() in message else group.message


def _diagnosis(case: CaseResult) -> list[str]:
    if case.diagnosis is None:
        return []
    found, lines = case.diagnosis, []
    if found.summary and found.summary not in case.message:
        lines.append(found.summary)
    lines += [f"  {where(who, ())}: {state}" for state, who in _alike(found.states).items()]
    lines += [f"artifacts: {found.artifacts}"] if found.artifacts else []
    return ["\n".join(lines)] if lines else []


def _stacks(what: str, texts: Mapping[int, str]) -> list[str]:
    return [f"{what} of {where(who, ())}:\n{text.strip()}" for text, who in _alike(texts).items()]


def _alike(texts: Mapping[int, str]) -> dict[str, list[int]]:
    """Ranks by what is said of them."""
    groups: dict[str, list[int]] = {}
    for rank, text in texts.items():
        groups.setdefault(text, []).append(rank)
    return groups


def _indented(text: str, by: str = "    ") -> list[str]:
    return [f"{by}{line}" for line in text.strip().splitlines()]
