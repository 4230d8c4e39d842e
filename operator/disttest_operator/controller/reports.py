"""Reads a report from the leader's log, checks it, and stores it in a ConfigMap."""

import asyncio
import base64
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from disttest_contract import limits
from disttest_contract.results import trimming
from disttest_contract.results.report import InvalidReportError
from disttest_contract.transport import frames
from disttest_contract.transport.frames import GZIP, squeeze
from disttest_operator.core.actions import ReadReport
from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import AlreadyExistsError, ApiServerError, RequestRefusedError
from disttest_operator.core.api.model import DistTest, Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.evidence import LogUnreadable, ReportFound, ReportLost, Stored
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.verdict.report_check import read_report, read_stored_report
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import Cluster, OperationCounter, Transport

TRIMMED_TEXT_BYTES = 1024  # a report may contain any text


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedReport:
    """`sha256` is of the uncompressed JSON. `trimmed` lists what was removed; empty for a whole report."""

    gz_bytes: bytes
    sha256: str
    trimmed: str = ""


def pack(found: ReportFound, limit_bytes: int = limits.CONFIG_MAP_REPORT_BYTES) -> PackedReport:
    """Compress the report, and trim it only if it does not fit."""
    packed, sha256, trimmed = squeeze(found.raw, limit_bytes, form=GZIP), found.sha256, found.report.trimmed
    if packed is None:
        fitted = trimming.fit(found.report.to_json(), lambda raw: squeeze(raw, limit_bytes, form=GZIP))
        raw, packed, trimmed = fitted
        sha256 = hashlib.sha256(raw).hexdigest()
    return PackedReport(gz_bytes=packed, sha256=sha256, trimmed=limits.cut(trimmed, TRIMMED_TEXT_BYTES))


THREAD_BYTES = 1 << 16  # less than this is processed faster than a thread starts
LARGE_BYTES = 1 << 20  # of a report, unpacked
LOG_LIMIT_BYTES = 6 << 20  # an agent limits its log to 4 MiB; an image may write before it starts


P = ParamSpec("P")
T = TypeVar("T")


class MemoryPermit:
    """Allows one large report at a time: each may take a third of the operator's memory."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._is_held = False

    async def acquire(self) -> None:
        if not self._is_held:
            await self._lock.acquire()
            self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._lock.release()
            self._is_held = False


async def read(
    cluster: Cluster, test: DistTest, step: ReadReport, counts: OperationCounter, *, permit: MemoryPermit
) -> ReportFound | ReportLost | LogUnreadable:
    """Read the report from the log, or from the ConfigMap if it was stored before and the log is gone.

    Acquires the permit before a large report is unpacked. The caller releases it when the report is no longer needed.
    """
    found = await _from_log(cluster, test, step, permit)
    counts.count_report(Transport.LOG, _outcome(found))
    if isinstance(found, ReportLost) and not found.is_invalid:
        stored = await _from_config_map(cluster, test, permit)
        counts.count_report(Transport.CONFIG_MAP, _outcome(stored or found))
        return stored or found
    return found


def _outcome(found: ReportFound | ReportLost | LogUnreadable) -> str:
    match found:
        case ReportFound():
            return "found"
        case ReportLost(is_invalid=True):
            return "invalid"
        case ReportLost():
            return "missing"
        case LogUnreadable():
            return "unreadable"


async def store(cluster: Cluster, test: DistTest, name: str, found: ReportFound) -> Stored:
    """Store the report. A failure is a problem in the result: it must not prevent the verdict."""
    packed = await _in_thread(len(found.raw), pack, found)
    problem = f"omitted because of the size limit: {packed.trimmed}" if packed.trimmed else ""
    try:
        for free in (name, naming.spare_report_config_map(test, name)):
            manifest = job.build_report_config_map(test, free, packed.gz_bytes, packed.sha256)
            if await _create(cluster, test, manifest, packed.sha256):
                return Stored(config_map=free, sha256=packed.sha256, problem=problem)
    except RequestRefusedError as error:
        return Stored(problem=f"the report could not be stored: {error}")
    return Stored(problem=f"the report could not be stored: {name!r} and {free!r} are ConfigMaps of other owners")


async def _create(cluster: Cluster, test: DistTest, manifest: Manifest, sha256: str) -> bool:
    """Whether the ConfigMap exists now; it may be left from before a restart."""
    try:
        await cluster.create(Kind.CONFIG_MAP, manifest)
    except AlreadyExistsError:
        name = manifest["metadata"]["name"]
        existing = await cluster.get(Kind.CONFIG_MAP, test.namespace, name, only_metadata=True)
        return existing is not None and _is_ours(existing, test, sha256)
    return True


async def _from_log(  # noqa: PLR0911  # each cause of a missing report has a message
    cluster: Cluster, test: DistTest, step: ReadReport, permit: MemoryPermit
) -> ReportFound | ReportLost | LogUnreadable:
    leader, nonce = step.leader, step.nonce
    if not nonce:
        return ReportLost(problem="the report cannot be verified, because the Job was deleted")
    try:
        log = None if leader.is_gone else await cluster.log(test.namespace, leader.name, limit_bytes=LOG_LIMIT_BYTES)
    except RequestRefusedError as error:
        return ReportLost(problem=f"the leader's log cannot be read: {error}")
    except ApiServerError as error:
        return LogUnreadable(problem=f"the leader's log cannot be read: {error}")
    if log is None:
        return ReportLost(problem="the leader's log was deleted with its pod")
    summary = leader.exit.summary if leader.exit else None
    try:
        packed = await _in_thread(len(log), _find, log, nonce)
        del log  # other runs may keep the permit for a long time
        if packed.is_larger_than(LARGE_BYTES):
            await permit.acquire()
        raw = await _in_thread(len(packed.stream), packed.unpack)
        return await _in_thread(len(raw), read_report, raw, test, leader.exit, step.quarantine)
    except frames.FrameError as error:
        if summary and summary.report_sha256:
            return LogUnreadable(problem=str(error))  # the leader has written it, but the log is delayed
        return ReportLost(problem=str(error), is_invalid=not isinstance(error, frames.NoFrameError))
    except InvalidReportError as error:
        return ReportLost(problem=str(error), is_invalid=True)


def _find(log: bytes, nonce: str) -> frames.FramedReport:
    """Decoded as latin-1, the text needs the same memory as the log. Frames are ASCII."""
    return frames.find(log.decode("latin-1"), nonce)


async def _from_config_map(cluster: Cluster, test: DistTest, permit: MemoryPermit) -> ReportFound | ReportLost | None:
    name = naming.report_config_map(test)
    for candidate in (name, naming.spare_report_config_map(test, name)):
        body = await cluster.get(Kind.CONFIG_MAP, test.namespace, candidate)
        if body and decoding.owner_uid(body) == test.uid:
            await permit.acquire()
            return await _unpack(body, test)
    return None


async def _unpack(body: Body, test: DistTest) -> ReportFound | ReportLost:
    try:
        packed = base64.b64decode((body.get("binaryData") or {}).get(naming.REPORT_KEY, ""), validate=True)
        raw = await asyncio.to_thread(zlib.decompressobj(wbits=31).decompress, packed, limits.REPORT_BYTES)
        return await asyncio.to_thread(read_stored_report, raw, test)
    except (ValueError, zlib.error) as error:  # InvalidReportError and binascii.Error are ValueErrors
        problem = f"the report in ConfigMap {body['metadata']['name']} is invalid: {error}"
        return ReportLost(problem=problem, is_invalid=True)


async def _in_thread(size_bytes: int, function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run it in a thread if it would delay the event loop."""
    if size_bytes < THREAD_BYTES:
        return function(*args, **more)
    return await asyncio.to_thread(function, *args, **more)


def _is_ours(body: Body, test: DistTest, sha256: str) -> bool:
    annotations = body["metadata"].get("annotations") or {}
    return decoding.owner_uid(body) == test.uid and annotations.get(naming.ANNOTATION_REPORT_SHA256) == sha256
