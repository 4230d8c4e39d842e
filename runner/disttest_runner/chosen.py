"""Cases that were asked for by their ids, and what to say where one does not exist. Pure."""

import difflib
from collections.abc import Iterable, Sequence

from disttest_contract import limits

NEAR = 3  # names to choose from
MISSING = 3  # that are named
SHOWN_BYTES = 160  # of one id


def missing(collected: Sequence[str], wanted: Iterable[str]) -> str:
    """A sentence, if there is a case that does not exist."""
    known = set(collected)
    lost = [case_id for case_id in dict.fromkeys(wanted) if case_id not in known]
    if not lost:
        return ""
    more = [f"and {len(lost) - MISSING} more that do not exist"] if len(lost) > MISSING else []
    return "; ".join([*(_missing(case_id, collected) for case_id in lost[:MISSING]), *more])


def _missing(case_id: str, collected: Sequence[str]) -> str:
    near = _near(case_id, collected)
    if near:
        more = f" ({len(near) - NEAR} more begin like this)" if len(near) > NEAR else ""
        advice = f"did you mean {' or '.join(map(_show, near[:NEAR]))}?{more}"
    elif collected:
        advice = f"it has {len(collected)}, the first is {_show(collected[0])}"
    else:
        advice = "it has none"
    return f"the suite has no case {_show(case_id)}: {advice}"


def _near(case_id: str, collected: Sequence[str]) -> Sequence[str]:
    """Its parametrized cases, else cases that begin like it, in its file or in another, else similar ids."""
    function = case_id.rpartition("::")[2]
    for begin in (f"{case_id}[", case_id):
        if found := [one for one in collected if one.startswith(begin)]:
            return found
    for begin in (f"::{function}[", f"::{function}"):
        if found := [one for one in collected if function and begin in one]:
            return found
    return difflib.get_close_matches(case_id, collected, n=NEAR, cutoff=0.5)


def _show(case_id: str) -> str:
    return limits.cut(case_id, SHOWN_BYTES)
