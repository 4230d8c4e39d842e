"""The way of a report: from the leader's log, through a check, into a ConfigMap."""

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
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.evidence import LogUnreadable, ReportFound, ReportLost, Stored
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.verdict.report_check import read_report, read_stored_report
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import (
    Cluster,
    ClusterError,
    ExistsError,
    Kind,
    RefusedError,
    RequestCounter,
    Transport,
)

WORDS_BYTES = 1024  # of what was left out: a report may claim anything


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedReport:
    """`sha256` is of the JSON inside. `trimmed` says what was left out, here or before; empty for a whole report."""

    gz_bytes: bytes
    sha256: str
    trimmed: str = ""


def pack(found: ReportFound, limit_bytes: int = limits.CONFIG_MAP_REPORT_BYTES) -> PackedReport:
    """As it came if that fits."""
    whole = squeeze(found.raw, limit_bytes, form=GZIP)
    if whole is not None:
        return PackedReport(gz_bytes=whole, sha256=found.sha256, trimmed=limits.cut(found.report.trimmed, WORDS_BYTES))
    raw, packed, trimmed = trimming.fit(found.report.to_json(), lambda raw: squeeze(raw, limit_bytes, form=GZIP))
    return PackedReport(
        gz_bytes=packed, sha256=hashlib.sha256(raw).hexdigest(), trimmed=limits.cut(trimmed, WORDS_BYTES)
    )


AT_ONCE_BYTES = 1 << 16  # what is smaller is done with sooner than a thread is told of it
LARGE_BYTES = 1 << 20  # of a report, unpacked
LOG_LIMIT_BYTES = 6 << 20  # an agent keeps its log below 4 MiB; the rest is for what an image writes before it starts


P = ParamSpec("P")
T = TypeVar("T")


class Room:
    """For one large report at a time: each may take a third of the memory that the operator has."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._is_taken = False

    async def take(self) -> None:
        if not self._is_taken:
            await self._lock.acquire()
            self._is_taken = True

    def leave(self) -> None:
        if self._is_taken:
            self._lock.release()
            self._is_taken = False


async def read(
    cluster: Cluster, test: DistTest, step: ReadReport, counts: RequestCounter, *, room: Room
) -> ReportFound | ReportLost | LogUnreadable:
    """From the log; from the ConfigMap if an operator before us had stored it and the log is gone.

    What is large is unpacked when there is room, which is the caller's to leave when the report is no longer needed.
    """
    found = await _from_log(cluster, test, step, room)
    counts.count_report(Transport.LOG, _word(found))
    if isinstance(found, ReportLost) and not found.is_invalid:
        stored = await _from_config_map(cluster, test, room)
        counts.count_report(Transport.CONFIG_MAP, "found" if stored else "missing")
        return stored or found
    return found


def _word(found: ReportFound | ReportLost | LogUnreadable) -> str:
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
    """Failing to store it must not keep the run from its verdict, but it is said."""
    packed = await _aside(len(found.raw), pack, found)
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
    """Whether it is there now; an operator before us may have made it."""
    try:
        await cluster.create(Kind.CONFIG_MAP, manifest)
    except ExistsError:
        name = manifest["metadata"]["name"]
        existing = await cluster.get(Kind.CONFIG_MAP, test.namespace, name, only_metadata=True)
        return existing is not None and _is_ours(existing, test, sha256)
    return True


async def _from_log(  # noqa: PLR0911  # every way to have no report has its own words
    cluster: Cluster, test: DistTest, step: ReadReport, room: Room
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
        packed = await _aside(len(log), _find, log, nonce)
        del log  # others may be before us
        if packed.is_larger_than(LARGE_BYTES):
            await room.take()
        raw = await _aside(len(packed.stream), packed.unpack)
        return await _aside(len(raw), read_report, raw, test, leader.exit, step.quarantine)
    except frames.FrameError as error:
        if summary and summary.report_sha256:
            return LogUnreadable(problem=str(error))  # the leader wrote it, the log is behind
        return ReportLost(problem=str(error), is_invalid=not isinstance(error, frames.NoFrameError))
    except InvalidReportError as error:
        return ReportLost(problem=str(error), is_invalid=True)


def _find(log: bytes, nonce: str) -> frames.FramedReport:
    """Frames are ASCII, and so read the log takes no more room as a text than it did."""
    return frames.find(log.decode("latin-1"), nonce)


async def _from_config_map(cluster: Cluster, test: DistTest, room: Room) -> ReportFound | None:
    name = naming.report_config_map(test)
    for taken in (name, naming.spare_report_config_map(test, name)):
        body = await cluster.get(Kind.CONFIG_MAP, test.namespace, taken)
        if body and decoding.owner_uid(body) == test.uid:
            await room.take()
            return await _unpack(body, test)
    return None


async def _unpack(body: Body, test: DistTest) -> ReportFound | None:
    try:
        packed = base64.b64decode((body.get("binaryData") or {}).get(naming.REPORT_KEY, ""), validate=True)
        raw = await asyncio.to_thread(zlib.decompressobj(wbits=31).decompress, packed, limits.REPORT_BYTES)
        return await asyncio.to_thread(read_stored_report, raw, test)
    except (ValueError, zlib.error):  # InvalidReportError and what base64 raises are among them
        return None


async def _aside(size_bytes: int, function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """In a thread if it takes so long that others would wait for it."""
    if size_bytes < AT_ONCE_BYTES:
        return function(*args, **more)
    return await asyncio.to_thread(function, *args, **more)


def _is_ours(body: Body, test: DistTest, sha256: str) -> bool:
    annotations = body["metadata"].get("annotations") or {}
    return decoding.owner_uid(body) == test.uid and annotations.get(naming.ANNOTATION_REPORT_SHA256) == sha256
