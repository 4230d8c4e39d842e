"""What a pod, a report or a user has said, as it may stand in a status, a ledger or an event: harmless and short."""

from disttest_contract import harmless, limits

LOOKED_AT = 4  # times the limit, in characters: a forged text may have millions


def case_id(text: str) -> str:
    """Short before it is made harmless, which may make it long again; still its own, by the checksums."""
    return limits.cut_id(harmless.line(limits.cut_id(text)))


def line(text: str, limit_bytes: int) -> str:
    return limits.cut(harmless.line(text[: LOOKED_AT * limit_bytes]), limit_bytes)


def block(text: str, limit_bytes: int) -> str:
    """Line ends stay."""
    return limits.cut(harmless.block(text[: LOOKED_AT * limit_bytes]), limit_bytes)
