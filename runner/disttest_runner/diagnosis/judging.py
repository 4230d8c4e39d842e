"""What the leader makes of all that was seen of a case that did not end. Pure."""

from collections.abc import Mapping

from disttest_contract.diagnosis import Diagnosis
from disttest_runner.diagnosis import comparison, wording
from disttest_runner.diagnosis.seen import Seen

MAX_STATES = 64  # of one case in the report


def diagnose(
    seen: Mapping[int, Seen], *, unfinished: tuple[int, ...], finished: Mapping[int, str], name: wording.Name
) -> tuple[tuple[int, ...], Diagnosis]:
    """The ranks to blame, none if nothing proves it, and the account. `finished` leaves out ranks without a part."""
    finding = comparison.compare(seen, unfinished=frozenset(unfinished), ranks=(*unfinished, *finished))
    told = dict.fromkeys([*finding.culprits, *unfinished])
    states = {rank: words for rank in list(told)[:MAX_STATES] if (words := wording.state(rank, seen, finished))}
    return finding.culprits, Diagnosis(summary=wording.sentence(finding, seen, finished, name), states=states)
