"""What a ledger remembers of single cases: those that fail now, and those that were good and bad by turns.

Of twenty thousand cases nearly all are good in every run, and nothing is kept of them: a case without a history was
good. A history begins with the first trouble and ends when the last runs hold none. It lives in the two lists that
users read, so that both are all there is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import pairwise
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import Verdict
from disttest_operator.core.series.run_results import BadCase, CaseKey, Letter, Results

LISTED = 50  # in each list; the longest streaks, and what changes most
WINDOW = 30  # runs about cases that a history holds

GOOD, BAD = Letter.GOOD.value, Letter.BAD.value
# In one run a flaky case was bad and then good; a run without the case says nothing.
STATES = {Letter.GOOD.value: GOOD, Letter.BAD.value: BAD, Letter.FLAKY.value: BAD + GOOD, Letter.ABSENT.value: ""}

Ledger = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One case. `outcomes` has a letter for each run, the newest last; times are those of runs."""

    suite: str
    case: str
    outcomes: str = ""
    streak: int = 0  # runs in which it was bad since it was good; may be more than `outcomes` holds
    since: str = ""  # the first of them
    is_longer: bool = False  # the streak may have begun before that: the list had no room for it
    outcome: str = ""
    message: str = ""
    flipped: str = ""

    @property
    def key(self) -> CaseKey:
        return self.suite, self.case

    @property
    def states(self) -> str:
        return _states(self.outcomes)

    @property
    def flips(self) -> int:
        return sum(one != other for one, other in pairwise(self.states))

    @property
    def is_flaky(self) -> bool:
        return is_flaky(self.outcomes)

    @property
    def is_failing(self) -> bool:
        return self.streak > 0 and BAD in self.outcomes


def is_flaky(outcomes: str) -> bool:
    """It was bad and good in one run, or broke again. One that broke once, and was mended perhaps, is not."""
    return Letter.FLAKY.value in outcomes or _states(outcomes).count(GOOD + BAD) > 1


def _states(outcomes: str) -> str:
    return "".join(STATES.get(letter, "") for letter in outcomes)


def fold(ledger: Ledger, results: Results, *, time: str) -> dict[str, Any]:
    """The fields of the ledger that a run changes."""
    if not results.has_cases:
        return {}
    known = _read(ledger)
    histories = [_go_on(one, _letter(one.key, results), results.troubles.get(one.key), time) for one in known.values()]
    begun, more_failing, more_flipping = _begin(ledger, results, known, time)
    failing = sorted((one for one in [*histories, *begun] if one.is_failing), key=_longest_first)
    flipping = _most_changing_first(one for one in [*histories, *begun] if one.flips)
    hidden = len(failing[LISTED:]) + more_failing + _still_hidden(ledger, results, known)
    found = len(flipping) + more_flipping
    return {
        "failing": [_failing(one) for one in failing[:LISTED]],
        "failingCut": hidden,
        "flipping": [_flipping(one) for one in flipping[:LISTED]],
        "flippingCut": count_cut(ledger.get("flippingCut", 0), listed=LISTED, found=found),
        "flakyCases": sum(one.is_flaky for one in flipping[:LISTED]),
    }


def count_cut(before: int, *, listed: int, found: int) -> int:
    """At least so many are missing in a list: who was cut is forgotten, so only a list with room is surely whole."""
    return max(before, found - listed) if found >= listed else 0


def _begin(
    ledger: Ledger, results: Results, known: Mapping[CaseKey, History], time: str
) -> tuple[list[History], int, int]:
    """First troubles. Of many that differ in name only those that may be listed, and how many more fail and changed."""
    is_partial = ledger.get("failingCut", 0) > 0
    tested = set() if is_partial else _suites_with_a_pass(ledger)
    alike: dict[tuple[Letter, str], list[CaseKey]] = {}
    for key, trouble in results.troubles.items():
        if key not in known:
            alike.setdefault((trouble.letter, GOOD if key[0] in tested else ""), []).append(key)
    begun, more_failing, more_flipping = [], 0, 0
    for (letter, before), keys in alike.items():
        for suite, case in nsmallest(LISTED, keys):
            fresh = History(suite=suite, case=case, outcomes=before, is_longer=is_partial)
            begun.append(_go_on(fresh, letter, results.troubles[suite, case], time))
        more = max(0, len(keys) - LISTED)
        more_failing += more if begun[-1].is_failing else 0
        more_flipping += more if begun[-1].flips else 0
    return begun, more_failing, more_flipping


def _letter(key: CaseKey, results: Results) -> Letter:
    if trouble := results.troubles.get(key):
        return trouble.letter
    return Letter.GOOD if key in results.good else Letter.ABSENT


def _go_on(history: History, letter: Letter, trouble: BadCase | None, time: str) -> History:
    """One run later."""
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
            return replace(later, outcome=trouble.outcome.value, message=trouble.message) if trouble else later


def _suites_with_a_pass(ledger: Ledger) -> set[str]:
    """The first failure of a case says that it was good before only where its suite has run before."""
    rows = (ledger.get("totals") or {}).get("cases") or ()
    return {row["suite"] for row in rows if row["outcome"] == "passed" and row["count"]}


def _still_hidden(ledger: Ledger, results: Results, known: Mapping[CaseKey, History]) -> int:
    """Of the failing cases that had no room before, how many at least did not run now. Those that did are counted."""
    listed = {(row["suite"], row["case"]) for row in ledger.get("failing") or ()}
    seen = sum(one.is_failing for key, one in known.items() if key not in listed)
    ran = len(results.good - known.keys()) + len(results.troubles.keys() - known.keys())
    return max(0, int(ledger.get("failingCut", 0)) - seen - ran)


def _read(ledger: Ledger) -> dict[CaseKey, History]:
    """Both lists in one. What one of them does not say follows from the other."""
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
            is_longer=row.get("atLeast", False),
            outcome=row.get("lastOutcome", ""),
            message=row.get("message", ""),
            flipped=found[key].flipped if key in found else row["since"],
        )
    return found


def _longest_first(history: History) -> tuple[int, str, str, str]:
    return -history.streak, history.since, history.suite, history.case


def _most_changing_first(histories: Iterable[History]) -> list[History]:
    """Flaky ones before those that broke or were mended once, however many these are."""
    by_name = sorted(histories, key=lambda one: one.key)
    by_time = sorted(by_name, key=lambda one: one.flipped, reverse=True)
    return sorted(by_time, key=lambda one: (not one.is_flaky, -one.flips))


def _failing(history: History) -> dict[str, Any]:
    row: dict[str, Any] = {
        "case": history.case,
        "suite": history.suite,
        "streak": history.streak,
        "since": history.since,
        "outcomes": history.outcomes,
    }
    optional = {"lastOutcome": history.outcome, "message": history.message, "atLeast": history.is_longer}
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
    """`nodes` are those of the run, `oldest` is the time of the oldest run that the ledger keeps."""
    rows: dict[str, Row] = {row["name"]: row for row in ledger.get("blamedNodes") or ()}
    suspects = {limits.cut(one["name"], NODE_BYTES): one for one in entry["status"].get("suspectNodes") or ()}
    for name, suspect in suspects.items():
        rows[name] = _blame(rows.get(name, {}), name, suspect, entry)
    if entry["verdict"] == Verdict.PASSED:
        # A run that passed at last does not clear the nodes that it blames itself.
        for name in nodes & (rows.keys() - suspects.keys()):
            rows[name] = {"clearedTime": entry["time"], **rows[name]}
    kept = [row for row in rows.values() if "clearedTime" not in row or row["lastTime"] >= oldest]
    return {
        "blamedNodes": [dict(row) for row in _worst_first(kept)[:LISTED_BLAMED]],
        "blamedCut": count_cut(ledger.get("blamedCut", 0), listed=LISTED_BLAMED, found=len(kept)),
    }


def _blame(row: Row, name: str, suspect: Mapping[str, Any], entry: Mapping[str, Any]) -> Row:
    """Blamed anew a node is no longer cleared, and what was confirmed once has to be confirmed again."""
    was_confirmed = row.get("confirmed", False) and "clearedTime" not in row
    return {
        "name": name,
        "reason": limits.cut(suspect.get("reason", ""), REASON_BYTES),
        "times": row.get("times", 0) + 1,
        "confirmed": was_confirmed or bool(suspect.get("confirmed")),
        "lastTime": entry["time"],
        "lastRun": entry["name"],
    }


def _worst_first(rows: list[Row]) -> list[Row]:
    """Those that are not cleared, of these the confirmed ones, of these the latest."""
    by_time = sorted(sorted(rows, key=lambda row: row["name"]), key=lambda row: row["lastTime"], reverse=True)
    return sorted(by_time, key=lambda row: ("clearedTime" in row, not row["confirmed"]))


LISTED_NODES = 512  # nodes; a run has at most as many
FAILURES = 100  # pairs of node and reason


def fold_coverage(ledger: Mapping[str, Any], nodes: frozenset[str], *, time: str) -> dict[str, Any]:
    """The nodes that were tested last stay; one that no run has used for long goes when 512 others need its place."""
    if not nodes:
        return {}
    known = {row["name"]: row["time"] for row in ledger.get("nodes") or ()}
    known |= {limits.cut(name, NODE_BYTES): time for name in nodes}
    rows = sorted(({"name": name, "time": at} for name, at in known.items()), key=lambda row: row["name"])
    newest = sorted(rows, key=lambda row: row["time"], reverse=True)[:LISTED_NODES]
    return {"nodes": newest, "nodesCut": max(0, len(rows) - LISTED_NODES)}


def add_failures(rows: Sequence[Row], suspects: Sequence[Row]) -> list[dict[str, Any]]:
    """Only those that the run confirmed."""
    counts = {(row["node"], row["reason"]): row["count"] for row in rows}
    for suspect in suspects:
        node, reason = limits.cut(suspect["name"], NODE_BYTES), limits.cut(suspect.get("reason", ""), REASON_BYTES)
        if suspect.get("confirmed") and ((node, reason) in counts or len(counts) < FAILURES):
            counts[node, reason] = counts.get((node, reason), 0) + 1
    return [{"node": node, "reason": reason, "count": count} for (node, reason), count in counts.items()]
