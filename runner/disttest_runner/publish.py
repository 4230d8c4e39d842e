"""The end of the leader's log: the whole report, cut to what fits if it must be."""

import hashlib
from dataclasses import dataclass

from disttest_contract import frames, trimming
from disttest_contract.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """The lines to print, the checksum of what they carry, and what that leaves out."""

    lines: tuple[str, ...]
    sha256: str
    trimmed: str


def frame(report: Report, nonce: str, limit_bytes: int) -> Framed:
    raw, lines, trimmed = trimming.fit(report.to_json(), lambda raw: frames.encode_within(raw, nonce, limit_bytes))
    return Framed(lines=tuple(lines), sha256=hashlib.sha256(raw).hexdigest(), trimmed=trimmed)
