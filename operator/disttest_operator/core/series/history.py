"""History of cases and nodes in a ledger: failing and flipping cases, blamed nodes, coverage of nodes.

Nearly all of twenty thousand cases are good in every run, so a case without a history was good. A history starts with
the first bad run and ends when the runs of its window are all good. The two lists that users read are the only storage.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import pairwise
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import Verdict
from disttest_operator.core.series.run_results import BadCase, CaseKey, Letter, Results

LISTED = 50  # in each list: the longest streaks, and the cases that change most often
WINDOW = 30  # runs in a history

GOOD, BAD = Letter.GOOD.value, Letter.BAD.value
# A flaky case was first bad, then good in the same run; a run without the case does not count.
STATES = {Letter.GOOD.value: GOOD, Letter.BAD.value: BAD, Letter.FLAKY.value: BAD + GOOD, Letter.ABSENT.value: ""}

Ledger = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One case. `outcomes` has a letter for each run, the newest last; times are completion times of runs."""

    suite: str
    case: str
    outcomes: str = ""
    streak: int = 0  # bad runs since the last good one; may be more than `outcomes` has
    since: str = ""  # the first of them
    is_longer: bool = False  # the streak may be longer, since the list had no room for the case before
    outcome: str = ""
    message: str = ""
    flipped: str = ""

    @property
    def key(self) -> CaseKey:
        return self.suite, self.case

    @property
    def flips(self) -> int:
        return sum(one != other for one, other in pairwise(_states(self.outcomes)))

    @property
    def is_failing(self) -> bool:
        return self.streak > 0 and BAD in self.outcomes


def is_flaky(outcomes: str) -> bool:
    """Whether the case was bad and good in one run, or broke more than once. A fix after one break is not flaky."""
    return Letter.FLAKY.value in outcomes or _states(outcomes).count(GOOD + BAD) > 1


def _states(outcomes: str) -> str:
    return "".join(STATES.get(letter, "") for letter in outcomes)


def fold(ledger: Ledger, results: Results, *, time: str) -> dict[str, Any]:
    """The case lists of the ledger with this run added."""
    if not results.has_cases:
        return {}
    known = _read(ledger)
    continued = [_append(one, _letter(one.key, results), results.bad.get(one.key), time) for one in known.values()]
    new, more_failing, more_flipping = _new_histories(ledger, results, known, time)
    failing = sorted((one for one in [*continued, *new] if one.is_failing), key=_longest_first)
    flipping = _most_changing_first(one for one in [*continued, *new] if one.flips)
    hidden = len(failing[LISTED:]) + more_failing + _still_hidden(ledger, results, known)
    found = len(flipping) + more_flipping
    return {
        "failing": [_failing(one) for one in failing[:LISTED]],
        "failingOmitted": hidden,
        "flipping": [_flipping(one) for one in flipping[:LISTED]],
        "flippingOmitted": count_cut(ledger.get("flippingOmitted", 0), listed=LISTED, found=found),
        "flakyCases": sum(is_flaky(one.outcomes) for one in flipping[:LISTED]),
    }


def count_cut(before: int, *, listed: int, found: int) -> int:
    """Minimum number of entries that a list omits: omitted ones are not stored, so 0 needs a list with room."""
    return max(before, found - listed) if found >= listed else 0


def _new_histories(
    ledger: Ledger, results: Results, known: Mapping[CaseKey, History], time: str
) -> tuple[list[History], int, int]:
    """Histories of cases that were bad for the first time, and the numbers of other failing and flipping cases.

    Of cases with equal histories only as many are created as a list can have.
    """
    is_partial = ledger.get("failingOmitted", 0) > 0
    tested = set() if is_partial else _suites_with_a_pass(ledger)
    alike: dict[tuple[Letter, str], list[CaseKey]] = {}
    for key, bad in results.bad.items():
        if key not in known:
            alike.setdefault((bad.letter, GOOD if key[0] in tested else ""), []).append(key)
    new, more_failing, more_flipping = [], 0, 0
    for (letter, before), keys in alike.items():
        for suite, case in nsmallest(LISTED, keys):
            empty = History(suite=suite, case=case, outcomes=before, is_longer=is_partial)
            new.append(_append(empty, letter, results.bad[suite, case], time))
        more = max(0, len(keys) - LISTED)
        more_failing += more if new[-1].is_failing else 0
        more_flipping += more if new[-1].flips else 0
    return new, more_failing, more_flipping


def _letter(key: CaseKey, results: Results) -> Letter:
    if bad := results.bad.get(key):
        return bad.letter
    return Letter.GOOD if key in results.good else Letter.ABSENT


def _append(history: History, letter: Letter, bad: BadCase | None, time: str) -> History:
    later = replace(history, outcomes=history.outcomes + letter.value)
    if later.flips > history.flips:
        later = replace(later, flipped=time)
    later = replace(later, outcomes=later.outcomes[-WINDOW:])
    match letter:
        case Letter.ABSENT:
            return later
        case Letter.GOOD | Letter.FLAKY:
            return replace(later, streak=0, since="", is_longer=False, outcome="", message="")
        case Letter.BAD:
            later = replace(later, streak=history.streak + 1, since=history.since or time)
            return replace(later, outcome=bad.outcome.value, message=bad.message) if bad else later


def _suites_with_a_pass(ledger: Ledger) -> set[str]:
    """A case that fails for the first time was good before only if its suite ran before."""
    rows = (ledger.get("totals") or {}).get("cases") or ()
    return {row["suite"] for row in rows if row["outcome"] == "passed" and row["count"]}


def _still_hidden(ledger: Ledger, results: Results, known: Mapping[CaseKey, History]) -> int:
    """Minimum number of failing cases that were omitted before and did not run now; those that ran are counted."""
    listed = {(row["suite"], row["case"]) for row in ledger.get("failing") or ()}
    seen = sum(one.is_failing for key, one in known.items() if key not in listed)
    ran = len(results.good - known.keys()) + len(results.bad.keys() - known.keys())
    return max(0, int(ledger.get("failingOmitted", 0)) - seen - ran)


def _read(ledger: Ledger) -> dict[CaseKey, History]:
    """Both lists merged; each has fields that the other one lacks."""
    found: dict[CaseKey, History] = {}
    for row in ledger.get("flipping") or ():
        outcomes, flipped = row["outcomes"], row["lastFlipTime"]
        states = outcomes.replace(Letter.ABSENT.value, "")
        streak = len(states) - len(states.rstrip(BAD))
        found[row["suite"], row["case"]] = History(
            suite=row["suite"],
            case=row["case"],
            outcomes=outcomes,
            flipped=flipped,
            streak=streak,
            since=flipped if streak else "",
        )
    for row in ledger.get("failing") or ():
        key = (row["suite"], row["case"])
        found[key] = History(
            suite=row["suite"],
            case=row["case"],
            outcomes=row["outcomes"],
            streak=row["streak"],
            since=row["since"],
            is_longer=row.get("truncated", False),
            outcome=row.get("lastOutcome", ""),
            message=row.get("message", ""),
            flipped=found[key].flipped if key in found else row["since"],
        )
    return found


def _longest_first(history: History) -> tuple[int, str, str, str]:
    return -history.streak, history.since, history.suite, history.case


def _most_changing_first(histories: Iterable[History]) -> list[History]:
    """Flaky cases come before those that broke or were fixed once."""
    by_name = sorted(histories, key=lambda one: one.key)
    by_time = sorted(by_name, key=lambda one: one.flipped, reverse=True)
    return sorted(by_time, key=lambda one: (not is_flaky(one.outcomes), -one.flips))


def _failing(history: History) -> dict[str, Any]:
    row: dict[str, Any] = {
        "case": history.case,
        "suite": history.suite,
        "streak": history.streak,
        "since": history.since,
        "outcomes": history.outcomes,
    }
    optional = {"lastOutcome": history.outcome, "message": history.message, "truncated": history.is_longer}
    return row | {key: value for key, value in optional.items() if value}


def _flipping(history: History) -> dict[str, Any]:
    return {
        "case": history.case,
        "suite": history.suite,
        "flips": history.flips,
        "lastFlipTime": history.flipped,
        "outcomes": history.outcomes,
    }


LISTED_BLAMED = 50
NODE_BYTES = 253
REASON_BYTES = 64

Row = Mapping[str, Any]


def fold_blame(
    ledger: Mapping[str, Any], entry: Mapping[str, Any], nodes: frozenset[str], *, oldest: str
) -> dict[str, Any]:
    """Blamed nodes with this run added; `oldest` is the time of the oldest run that the ledger keeps."""
    rows: dict[str, Row] = {row["name"]: row for row in ledger.get("suspectNodes") or ()}
    suspects = {limits.cut(one["name"], NODE_BYTES): one for one in entry["status"].get("suspectNodes") or ()}
    for name, suspect in suspects.items():
        rows[name] = _blame(rows.get(name, {}), name, suspect, entry)
    if entry["verdict"] == Verdict.PASSED:
        # A run that passed in a later attempt does not clear the nodes that it suspects itself.
        for name in nodes & (rows.keys() - suspects.keys()):
            rows[name] = {"clearedTime": entry["time"], **rows[name]}
    kept = [row for row in rows.values() if "clearedTime" not in row or row["lastTime"] >= oldest]
    return {
        "suspectNodes": [dict(row) for row in _worst_first(kept)[:LISTED_BLAMED]],
        "suspectNodesOmitted": count_cut(ledger.get("suspectNodesOmitted", 0), listed=LISTED_BLAMED, found=len(kept)),
    }


def _blame(row: Row, name: str, suspect: Mapping[str, Any], entry: Mapping[str, Any]) -> Row:
    """A cleared node that is blamed again is no longer cleared, and must be confirmed again."""
    was_confirmed = row.get("confirmed", False) and "clearedTime" not in row
    return {
        "name": name,
        "reason": limits.cut(suspect.get("reason", ""), REASON_BYTES),
        "count": row.get("count", 0) + 1,
        "confirmed": was_confirmed or bool(suspect.get("confirmed")),
        "lastTime": entry["time"],
        "lastRun": entry["name"],
    }


def _worst_first(rows: list[Row]) -> list[Row]:
    """Nodes that are not cleared first, then confirmed ones, then by time."""
    by_time = sorted(sorted(rows, key=lambda row: row["name"]), key=lambda row: row["lastTime"], reverse=True)
    return sorted(by_time, key=lambda row: ("clearedTime" in row, not row["confirmed"]))


LISTED_NODES = 512  # nodes; a run has at most as many
FAILURES = 100  # pairs of node and reason


def fold_coverage(ledger: Mapping[str, Any], nodes: frozenset[str], *, time: str) -> dict[str, Any]:
    """The LISTED_NODES nodes that were tested last, by name."""
    if not nodes:
        return {}
    known = {row["name"]: row["time"] for row in ledger.get("nodes") or ()}
    known |= {limits.cut(name, NODE_BYTES): time for name in nodes}
    rows = sorted(({"name": name, "time": at} for name, at in known.items()), key=lambda row: row["name"])
    newest = sorted(rows, key=lambda row: row["time"], reverse=True)[:LISTED_NODES]
    return {"nodes": newest, "nodesOmitted": max(0, len(rows) - LISTED_NODES)}


def add_failures(rows: Sequence[Row], suspects: Sequence[Row]) -> list[dict[str, Any]]:
    """Count the nodes that the run confirmed as broken."""
    added = [
        ((limits.cut(suspect["name"], NODE_BYTES), limits.cut(suspect.get("reason", ""), REASON_BYTES)), 1)
        for suspect in suspects
        if suspect.get("confirmed")
    ]
    return add_counts(rows, ("node", "reason"), added, most=FAILURES)


def add_counts(
    rows: Sequence[Row], keys: Sequence[str], added: Iterable[tuple[tuple[str, ...], int]], *, most: int | None = None
) -> list[dict[str, Any]]:
    """Add to the `count` of the rows whose fields `keys` have these values; beyond `most` rows none is created."""
    counts = {tuple(row[key] for key in keys): row["count"] for row in rows}
    for values, count in added:
        if values in counts or most is None or len(counts) < most:
            counts[values] = counts.get(values, 0) + count
    return [dict(zip(keys, values, strict=True)) | {"count": count} for values, count in counts.items()]
