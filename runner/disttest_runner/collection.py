"""What tells one collection of cases from another. Pure."""

SHOWN = 5  # cases named in a sentence


def difference(ids: tuple[str, ...], others: tuple[str, ...]) -> str:
    """What two collections do not share, or where their order parts."""
    ours, theirs = set(ids), set(others)
    lacking = [case_id for case_id in ids if case_id not in theirs]
    extra = [case_id for case_id in others if case_id not in ours]
    parts = [f"{word} {_some(cases)}" for word, cases in (("without", lacking), ("with", extra)) if cases]
    if parts:
        return "; ".join(parts)
    pairs = enumerate(zip(ids, others, strict=False))
    place = next((number for number, (one, other) in pairs if one != other), min(len(ids), len(others)))
    return f"the same cases in another order, from number {place + 1} on"


def _some(cases: list[str]) -> str:
    more = f" and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
    return ", ".join(cases[:SHOWN]) + more
