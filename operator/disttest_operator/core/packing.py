"""A report as the bytes of a ConfigMap: whole if it fits, else with the least telling parts left out, and saying so."""

import hashlib
from dataclasses import dataclass

from disttest_contract import limits, trimming
from disttest_contract.squeeze import GZIP, squeeze
from disttest_operator.core.evidence import ReportFound

WORDS_BYTES = 1024  # of what was left out: a report may claim anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """`sha256` is of the JSON inside. `trimmed` says what was left out, here or before; empty for a whole report."""

    gz_bytes: bytes
    sha256: str
    trimmed: str = ""


def pack(found: ReportFound, limit_bytes: int = limits.CONFIG_MAP_REPORT_BYTES) -> Packed:
    """As it came if that fits."""
    whole = squeeze(found.raw, limit_bytes, form=GZIP)
    if whole is not None:
        return Packed(gz_bytes=whole, sha256=found.sha256, trimmed=limits.cut(found.report.trimmed, WORDS_BYTES))
    raw, packed, trimmed = trimming.fit(found.report.to_json(), lambda raw: squeeze(raw, limit_bytes, form=GZIP))
    return Packed(gz_bytes=packed, sha256=hashlib.sha256(raw).hexdigest(), trimmed=limits.cut(trimmed, WORDS_BYTES))
