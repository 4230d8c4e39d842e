"""Sizes and counts that both ends must keep."""

import hashlib

TERMINATION_MESSAGE_BYTES = 4096  # what a kubelet keeps of one container
REPORT_BYTES = 32 << 20  # of the JSON, unpacked, and as a text: the operator reads it within its 512 MiB
REPORT_VALUES = 1_000_000  # commas and brackets of that JSON: what is read takes memory by its values
REPORT_RANKS = 8_000_000  # of all groups of ranks of all cases: written as `0-511` they weigh nothing
REPORT_PROBLEM_BYTES = 512  # of a sentence that says what is wrong with a report: it may quote what was forged
CASES = 100_000  # of a report
NUMBER = 10**18  # of a report
CONFIG_MAP_REPORT_BYTES = 900 << 10  # of the gzip in a ConfigMap of at most 1 MiB
LOG_BYTES = 4 << 20  # of one container: only the newest file of a rotated log can be read back
MESSAGE_BYTES = 4096  # of one case in the report
FAILURE_MESSAGE_BYTES = 512  # of one case in a status
RANK_GROUPS = 16  # of one case: ranks that ended alike
RANK_MESSAGE_BYTES = 2048  # of one of them: 32 KiB of one case
RANK_LOG_BYTES = 2048  # log records and warnings of a case, of each of as many ranks
CASE_ID_BYTES = 512  # where there is no room for more; a checksum of the whole follows
FRAME_LINE_BYTES = 4096  # of one line of the framed report: below the 16 KiB at which container runtimes split lines
PLAN_BYTES = 120 << 10  # of the plan's variable: Linux starts no program with one of more than 128 KiB
NODES = 512
RANKS_PER_NODE = 128
SUITES = 32
MEASUREMENTS = 64  # of one case
QUARANTINED = 256  # patterns of one suite
THRESHOLDS = 40  # of a run
BANDWIDTHS = 40  # rows of a status
SIZE_BYTES = 1 << 40  # of one collective
BUS_BYTES_PER_SECOND = 10**15


def cut(text: str, limit_bytes: int) -> str:
    """Shorten to at most so many bytes of UTF-8, marking the cut."""
    if len(text) <= limit_bytes and text.isascii():
        return text  # as nearly always: no copy, of which a large report would have thousands
    raw = text.encode(errors="replace")
    if len(raw) <= limit_bytes:
        return raw.decode()
    mark = "…"
    room = limit_bytes - len(mark.encode())
    return raw[:room].decode(errors="ignore") + mark if room >= 0 else ""


def cut_middle(text: str, limit_bytes: int) -> str:
    """The same, of a message: it says first who, and at its end what."""
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
    """A case's id, short and still its own: what is cut off lives on in a checksum."""
    raw = case_id.encode(errors="replace")
    if len(raw) <= CASE_ID_BYTES:
        return raw.decode()
    return f"{cut(case_id, CASE_ID_BYTES)}#{hashlib.sha256(raw).hexdigest()[:8]}"
