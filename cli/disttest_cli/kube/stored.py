"""Read stored reports: from ConfigMaps of a cluster, also of deleted runs, and from files."""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disttest_cli import fields
from disttest_cli.errors import UsageError
from disttest_cli.formats.subject import Subject
from disttest_cli.input import files
from disttest_cli.kube import error_advice
from disttest_contract import limits
from disttest_contract.results.report import InvalidReportError, Report
from disttest_contract.text import escaping
from disttest_operator.core.api.naming import ANNOTATION_REPORT_SHA256, REPORT_KEY
from disttest_operator.core.api.resources import Kind

if TYPE_CHECKING:
    from disttest_cli.kube.client import Body, KubeClient

GZIP_MAGIC = b"\x1f\x8b"
GZIP = 31  # zlib's wbits for gzip
SENTENCE_BYTES = 600  # of a quoted message in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportLocation:
    """The ConfigMap of a report; `sha256` and `uid` are empty if unknown."""

    config_map: str
    sha256: str = ""
    uid: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)


def find(server: "KubeClient", namespace: str, name: str, *, attempt: int = 0) -> Subject:
    """The report of a run or of one of its attempts; of a deleted run, the one that its series retains.

    Raises CommandError if there is none.
    """
    with error_advice.explaining():
        run = server.get(Kind.RUN, namespace, name)
        place = _of_run(run, namespace, name, attempt) if run else _kept(server, namespace, name, attempt)
        body = server.get(Kind.CONFIG_MAP, namespace, place.config_map)
    if body is None:
        if run is None:
            raise _no_run(namespace, name)
        raise UsageError(
            f"the report of DistTest {name!r} no longer exists (ConfigMap {place.config_map!r} in namespace "
            f"{namespace!r}). To show the first failures, run `disttest describe {name} -n {namespace}`."
        )
    return Subject(report=_unpack(body, place, namespace), status=place.status)


def find_if_any(server: "KubeClient", run: "Body", attempt: int = 0) -> tuple[Report | None, str]:
    """The report of a run, or why it is not available."""
    try:
        return find(server, fields.namespace(run), fields.name(run), attempt=attempt).report, ""
    except UsageError as error:
        return None, str(error)


def read_file(path: str) -> Report:
    """A report from a file or from standard input (`-`), gzipped or not. Raises UsageError."""
    shown = "standard input" if path == files.STDIN else path
    try:
        raw = files.read(path, limits.REPORT_BYTES)
    except (OSError, ValueError) as error:  # ValueError: an invalid file name
        raise UsageError(f"{shown} cannot be read: {getattr(error, 'strerror', '') or error}") from error
    try:
        return Report.loads(_gunzip(raw) if raw.startswith(GZIP_MAGIC) else raw)
    except (zlib.error, InvalidReportError) as error:
        raise UsageError(
            f"{shown} is not a report: {_sentence(error)}. Use a report.json or report.json.gz of a ConfigMap, with up "
            f"to {limits.CASES:,} cases."
        ) from error


def _gunzip(packed: bytes) -> bytes:
    """Unpack at most the size of a report. Raises zlib.error for an invalid or incomplete gzip."""
    machine = zlib.decompressobj(wbits=GZIP)
    raw = machine.decompress(packed, limits.REPORT_BYTES + 1)
    if not machine.eof and len(raw) <= limits.REPORT_BYTES:
        raise zlib.error("the gzip data is incomplete")
    return raw


def _of_run(run: "Body", namespace: str, name: str, attempt: int) -> _ReportLocation:
    status: Mapping[str, Any] = run.get("status") or {}
    uid = str(run["metadata"]["uid"])
    records: Sequence[Mapping[str, Any]] = status.get("attempts") or ()
    if attempt and attempt != status.get("attempt"):
        return _ReportLocation(config_map=_of_attempt(records, name, attempt, status), uid=uid)
    if not status.get("verdict"):
        phase = status.get("phase") or "no operator has processed it"
        raise UsageError(
            f"DistTest {name!r} has no report yet, because it has not finished ({phase}). To wait for it, run "
            f"`{follow_with(namespace, name)}`{_advice(records)}"
        )
    report = status.get("report") or {}
    if not report.get("configMap"):
        raise UsageError(
            f"DistTest {name!r} ended without a report: {status['verdict']} ({status.get('reason', '')}): "
            f"{_sentence(status.get('message', ''))}. Run `disttest describe {name} -n {namespace}` and "
            f"`disttest logs {name} -n {namespace}`{_advice(records)}"
        )
    return _ReportLocation(
        config_map=str(report["configMap"]), sha256=str(report.get("sha256") or ""), uid=uid, status=status
    )


def _of_attempt(records: Sequence[Mapping[str, Any]], name: str, attempt: int, status: Mapping[str, Any]) -> str:
    record = next((one for one in records if one.get("number") == attempt), None)
    if record is None:
        last = int(status.get("attempt") or 0)
        known = sorted({int(one.get("number") or 0) for one in records} | ({last} if last else set()))
        words = f"Available: {', '.join(map(str, known))}" if known else "It has not started."
        raise UsageError(f"DistTest {name!r} has no attempt {attempt}. {words}")
    if not record.get("report"):
        ended = f"{record.get('verdict', '')} ({record.get('reason', '')}): {_sentence(record.get('message', ''))}"
        raise UsageError(f"attempt {attempt} of DistTest {name!r} has no report: {ended}{_advice(records)}")
    return str(record["report"])


def _advice(records: Sequence[Mapping[str, Any]]) -> str:
    numbers = [str(one.get("number")) for one in records if one.get("report")]
    return f"; for a partial report, use --attempt {numbers[-1]}" if numbers else ""


def _kept(server: "KubeClient", namespace: str, name: str, attempt: int) -> _ReportLocation:
    """Location of a deleted run's report: by the newest entry of a ledger, else by its default name."""
    ledgers = [ledger.get("status") or {} for ledger in server.list(Kind.SERIES, namespace)]
    entries = [run for ledger in ledgers for run in ledger.get("runs") or () if run.get("name") == name]
    if attempt:
        if not entries:
            raise _no_run(namespace, name)
        raise UsageError(f"DistTest {name!r} and the reports of its attempts were deleted. Remove --attempt.")
    entry = max(entries, key=lambda run: str(run.get("time", "")), default=None)
    if entry is None:
        return _ReportLocation(config_map=f"{name}-report")
    if not entry.get("report"):
        raise UsageError(
            f"DistTest {name!r} was deleted, and its report is not retained: {entry.get('verdict', '')} "
            f"({entry.get('reason', '')}) at {entry.get('time', '')}. A series retains its newest reports "
            "(--retained-reports of the operator)."
        )
    return _ReportLocation(
        config_map=str(entry["report"]), sha256=str(entry.get("reportSha256") or ""), uid=str(entry.get("uid") or "")
    )


def _no_run(namespace: str, name: str) -> UsageError:
    return UsageError(
        f"DistTest {name!r} does not exist in namespace {namespace!r}, and no report of it is retained. "
        f"Check `disttest list -n {namespace}`, or use another namespace with -n."
    )


def _unpack(body: "Body", place: _ReportLocation, namespace: str) -> Report:
    annotations = body["metadata"].get("annotations") or {}
    wanted = place.sha256 or annotations.get(ANNOTATION_REPORT_SHA256)
    try:
        packed = base64.b64decode((body.get("binaryData") or {})[REPORT_KEY], validate=True)
        raw = _gunzip(packed)
        if wanted and hashlib.sha256(raw).hexdigest() != wanted:
            raise InvalidReportError(f"its SHA-256 is not {wanted}")
        report = Report.loads(raw)
        if place.uid and report.uid != place.uid:
            raise InvalidReportError(f"it belongs to another run, {report.name!r} with the uid {report.uid!r}")
    except KeyError as error:
        problem = f"its binaryData has no {REPORT_KEY}"
        raise _damaged(place, namespace, problem) from error
    except (ValueError, TypeError, zlib.error) as error:  # ValueError: invalid base64 or report
        raise _damaged(place, namespace, _sentence(error)) from error
    return report


def _damaged(place: _ReportLocation, namespace: str, problem: str) -> UsageError:
    return UsageError(
        f"ConfigMap {place.config_map!r} in namespace {namespace!r} contains no valid report: {problem}. "
        "It may have been changed; run the test again."
    )


def _sentence(message: object) -> str:
    return escaping.short_line(str(message), SENTENCE_BYTES)


def follow_with(namespace: str, name: str) -> str:
    return f"kubectl wait -n {namespace} --for=condition=Finished --timeout=-1s disttest/{name}"
