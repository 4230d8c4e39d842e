"""What a suite says of its list of known failures: how many there were, and which entries are of no use. Pure."""

from collections.abc import Sequence

from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.quarantine import Matcher
from disttest_contract.report import CaseResult

SHOWN = 5
SHOWN_BYTES = 160  # of one pattern


def note(quarantined: int) -> str:
    """To be put behind a number of cases."""
    return f", {quarantined} quarantined failure{'s' if quarantined > 1 else ''}" if quarantined else ""


def advice(patterns: Sequence[str], cases: Sequence[CaseResult]) -> str:
    """Silence would let a list grow for ever. A pattern of which one case still fails, or did not run, stays."""
    matcher = Matcher(patterns)
    seen: dict[str, list[CaseResult]] = {pattern: [] for pattern in patterns}
    for case in cases:
        for pattern in matcher.which(case.id):
            seen[pattern].append(case)
    idle = [pattern for pattern, found in seen.items() if not found]
    healed = [pattern for pattern, found in seen.items() if found and all(map(_is_well, found))]
    parts = [
        f"warning: in quarantine, but no case of this suite: {_names(idle)}" if idle else "",
        f"passes again, take it off the quarantine list: {_names(healed)}" if healed else "",
    ]
    return "; ".join(part for part in parts if part)


def _is_well(case: CaseResult) -> bool:
    return case.outcome is Outcome.PASSED and not case.is_flaky


def _names(patterns: Sequence[str]) -> str:
    more = f" and {len(patterns) - SHOWN} more" if len(patterns) > SHOWN else ""
    return ", ".join(limits.cut(pattern, SHOWN_BYTES) for pattern in patterns[:SHOWN]) + more
