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
from disttest_operator.core.api.model import DistTest, Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.evidence import LogUnreadable, ReportFound, ReportLost, Stored
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.verdict.report_check import read_report, read_stored_report
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import (
    Cluster,
    ClusterError,
    ExistsError,
    OperationCounter,
    RefusedError,
    Transport,
)

TRIMMED_TEXT_BYTES = 1024  # a report may contain any text


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedReport:
    """`sha256` is of the uncompressed JSON. `trimmed` lists what was removed; empty for a whole report."""

    gz_bytes: bytes
    sha256: str
    trimmed: str = ""


def pack(found: ReportFound, limit_bytes: int = limits.CONFIG_MAP_REPORT_BYTES) -> PackedReport:
    """Compress the report, and trim it only if it does not fit."""
    whole = squeeze(found.raw, limit_bytes, form=GZIP)
    if whole is not None:
        return PackedReport(
            gz_bytes=whole, sha256=found.sha256, trimmed=limits.cut(found.report.trimmed, TRIMMED_TEXT_BYTES)
        )
    raw, packed, trimmed = trimming.fit(found.report.to_json(), lambda raw: squeeze(raw, limit_bytes, form=GZIP))
    return PackedReport(
        gz_bytes=packed, sha256=hashlib.sha256(raw).hexdigest(), trimmed=limits.cut(trimmed, TRIMMED_TEXT_BYTES)
    )


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
        counts.count_report(Transport.CONFIG_MAP, "found" if stored else "missing")
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
    """Store the report. A failure is a problem in the result: it must not keep the run from its verdict."""
    packed = await _in_thread(len(found.raw), pack, found)
    problem = f"left out for its size: {packed.trimmed}" if packed.trimmed else ""
    try:
        for free in (name, naming.spare_report_config_map(test, name)):
            manifest = job.build_report_config_map(test, free, packed.gz_bytes, packed.sha256)
            if await _create(cluster, test, manifest, packed.sha256):
                return Stored(config_map=free, sha256=packed.sha256, problem=problem)
    except RefusedError as error:
        return Stored(problem=f"it could not be stored: {error}")
    return Stored(problem=f"ConfigMap {free!r} exists and is not the report of this run, as does {name!r}")


async def _create(cluster: Cluster, test: DistTest, manifest: Manifest, sha256: str) -> bool:
    """Whether the ConfigMap exists now; it may be left from before a restart."""
    try:
        await cluster.create(Kind.CONFIG_MAP, manifest)
    except ExistsError:
        name = manifest["metadata"]["name"]
        existing = await cluster.get(Kind.CONFIG_MAP, test.namespace, name, only_metadata=True)
        return existing is not None and _is_ours(existing, test, sha256)
    return True


async def _from_log(  # noqa: PLR0911  # each way to have no report has its message
    cluster: Cluster, test: DistTest, step: ReadReport, permit: MemoryPermit
) -> ReportFound | ReportLost | LogUnreadable:
    leader, nonce = step.leader, step.nonce
    if not nonce:
        return ReportLost(problem="the report cannot be told from others, since the Job is gone")
    try:
        log = None if leader.is_gone else await cluster.log(test.namespace, leader.name, limit_bytes=LOG_LIMIT_BYTES)
    except RefusedError as error:
        return ReportLost(problem=f"the leader's log cannot be read: {error}")
    except ClusterError as error:
        return LogUnreadable(problem=f"the leader's log cannot be read: {error}")
    if log is None:
        return ReportLost(problem="the leader's log went with its pod")
    summary = leader.exit.summary if leader.exit else None
    try:
        packed = await _in_thread(len(log), _find, log, nonce)
        del log  # other runs may hold the permit for long
        if packed.is_larger_than(LARGE_BYTES):
            await permit.acquire()
        raw = await _in_thread(len(packed.stream), packed.unpack)
        return await _in_thread(len(raw), read_report, raw, test, leader.exit, step.quarantine)
    except frames.FrameError as error:
        if summary and summary.report_sha256:
            return LogUnreadable(problem=str(error))  # the leader has written it, the log is behind
        return ReportLost(problem=str(error), is_invalid=not isinstance(error, frames.NoFrameError))
    except InvalidReportError as error:
        return ReportLost(problem=str(error), is_invalid=True)


def _find(log: bytes, nonce: str) -> frames.FramedReport:
    """Decoded as latin-1 the log takes no more memory as text. Frames are ASCII."""
    return frames.find(log.decode("latin-1"), nonce)


async def _from_config_map(cluster: Cluster, test: DistTest, permit: MemoryPermit) -> ReportFound | None:
    name = naming.report_config_map(test)
    for candidate in (name, naming.spare_report_config_map(test, name)):
        body = await cluster.get(Kind.CONFIG_MAP, test.namespace, candidate)
        if body and decoding.owner_uid(body) == test.uid:
            await permit.acquire()
            return await _unpack(body, test)
    return None


async def _unpack(body: Body, test: DistTest) -> ReportFound | None:
    try:
        packed = base64.b64decode((body.get("binaryData") or {}).get(naming.REPORT_KEY, ""), validate=True)
        raw = await asyncio.to_thread(zlib.decompressobj(wbits=31).decompress, packed, limits.REPORT_BYTES)
        return await asyncio.to_thread(read_stored_report, raw, test)
    except (ValueError, zlib.error):  # InvalidReportError and binascii.Error are ValueErrors
        return None


async def _in_thread(size_bytes: int, function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run it in a thread if it would delay the event loop."""
    if size_bytes < THREAD_BYTES:
        return function(*args, **more)
    return await asyncio.to_thread(function, *args, **more)


def _is_ours(body: Body, test: DistTest, sha256: str) -> bool:
    annotations = body["metadata"].get("annotations") or {}
    return decoding.owner_uid(body) == test.uid and annotations.get(naming.ANNOTATION_REPORT_SHA256) == sha256
