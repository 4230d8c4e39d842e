"""Limits of sizes and counts that operator and runner share, and cutting texts to them."""

import hashlib

TERMINATION_MESSAGE_BYTES = 4096  # what a kubelet keeps for one container
REPORT_BYTES = 32 << 20  # of the uncompressed JSON, as bytes and as a text: the operator parses it within its 512 MiB
REPORT_VALUES = 1_000_000  # commas and brackets of that JSON: parsed memory grows with the number of values
REPORT_RANKS = 8_000_000  # in all rank groups of all cases: `0-511` is short as JSON and large when parsed
REPORT_PROBLEM_BYTES = 512  # of a sentence on an invalid report: it can quote forged text
CASES = 100_000  # of a report
NUMBER = 10**18  # magnitude of a number in a report
CONFIG_MAP_REPORT_BYTES = 900 << 10  # of the gzip in a ConfigMap of at most 1 MiB
LOG_BYTES = 4 << 20  # of one container: only the newest file of a rotated log can be read
MESSAGE_BYTES = 4096  # of one case in the report
FAILURE_MESSAGE_BYTES = 512  # of one case in a status
RANK_GROUPS = 16  # of one case
RANK_MESSAGE_BYTES = 2048  # of one group: 32 KiB of one case
RANK_LOG_BYTES = 2048  # log records and warnings of a case, for each of up to RANK_GROUPS ranks
CASE_ID_BYTES = 512  # of a shortened id; a checksum of the whole follows
FRAME_LINE_BYTES = 4096  # of one line of the framed report: below the 16 KiB at which container runtimes split lines
PLAN_BYTES = 120 << 10  # of the plan's variable: Linux limits each variable to 128 KiB
NODES = 512
RANKS_PER_NODE = 128
SUITES = 32
MEASUREMENTS = 64  # of one case
QUARANTINED = 256  # patterns of one suite
REASONS = 45  # a metric label; also maxItems of status.retries in manifests/crd
THRESHOLDS = 40  # of a run
BANDWIDTHS = 40  # rows of a status
SIZE_BYTES = 1 << 40  # of one collective
BUS_BANDWIDTH_BYTES_PER_SECOND = 10**15


def cut(text: str, limit_bytes: int) -> str:
    """Shorten to at most `limit_bytes` of UTF-8 and mark the cut."""
    if len(text) <= limit_bytes and text.isascii():
        return text  # the usual case: no copy, of which a large report would have thousands
    raw = text.encode(errors="replace")
    if len(raw) <= limit_bytes:
        return raw.decode()
    mark = "…"
    room = limit_bytes - len(mark.encode())
    return raw[:room].decode(errors="ignore") + mark if room >= 0 else ""


def cut_middle(text: str, limit_bytes: int) -> str:
    """Like `cut`, but keep both ends: a message starts with the ranks and ends with the error."""
    raw = text.encode(errors="replace")
    if len(raw) <= limit_bytes:
        return raw.decode()
    mark = "…\n"
    room = limit_bytes - len(mark.encode())
    if room <= 0:
        return ""
    head = room // 4
    return raw[:head].decode(errors="ignore") + mark + raw[head - room :].decode(errors="ignore")


def cut_id(case_id: str) -> str:
    """Shorten a case's id; a checksum keeps it unique."""
    raw = case_id.encode(errors="replace")
    if len(raw) <= CASE_ID_BYTES:
        return raw.decode()
    return f"{cut(case_id, CASE_ID_BYTES)}#{hashlib.sha256(raw).hexdigest()[:8]}"
