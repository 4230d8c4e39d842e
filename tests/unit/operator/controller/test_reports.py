"""Which reports are believed, and how one is found again."""

import asyncio
import base64
import dataclasses
import gzip
import threading
from collections.abc import Callable, Iterator

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult, SuiteResult
from disttest_contract.transport import frames
from disttest_operator.controller import reconcile, reports
from disttest_operator.controller.reports import LARGE_BYTES
from disttest_operator.core.actions import ReadReport, WriteReport
from disttest_operator.core.api import naming
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.evidence import ReportFound, ReportLost
from tests.support.builders.runs import NONCE, UID, a_report, a_report_of, a_test, an_ended_pod, at, evidence, found
from tests.support.fakes.fake_cluster import FakeCluster, PowerCut
from tests.support.fakes.uncounted import Uncounted
from tests.support.fakes.world import REPORT, RUNNING, OperatorWorld, live

REFUSED: dict[str, Callable[[OperatorWorld], list[str]]] = {
    "cut": lambda world: frames.encode(REPORT.raw, world.nonce)[:-2],
    "of another attempt": lambda world: frames.encode(dataclasses.replace(a_report(), attempt=2).dumps(), world.nonce),
    "of another run": lambda world: frames.encode(dataclasses.replace(a_report(), uid="other").dumps(), world.nonce),
    "with another nonce": lambda _: frames.encode(REPORT.raw, "another"),
    "not the one that was announced": lambda world: frames.encode(
        dataclasses.replace(a_report(), generations=2).dumps(), world.nonce
    ),
    "no report at all": lambda _: ["hello"],
}


@pytest.mark.parametrize("lines", REFUSED.values(), ids=REFUSED.keys())
def test_a_pass_needs_the_announced_report(lines: Callable[[OperatorWorld], list[str]]) -> None:
    world = OperatorWorld(retries={"infrastructure": 0})
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish(lines(world))
    world.look()
    world.now = at(60)  # a log that is behind gets its time
    world.look()
    assert world.status["verdict"] == "InfraFailed"
    assert world.status["reason"] in {"ReportMissing", "ReportInvalid"}
    assert "report" not in world.status


def test_a_log_that_cannot_be_read_for_a_moment_is_read_again() -> None:
    world = OperatorWorld()
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish()
    world.cluster.broken_logs = 2
    again = [world.look(), world.look()]
    assert all(seconds is not None and 0 < seconds < 2 for seconds in again)
    assert world.status["phase"] == "Collecting"
    world.look()
    assert world.status["verdict"] == "Passed"


class Noting(tuple[SuiteResult, ...]):
    """Tells which threads look at suites."""

    __slots__ = ()

    def __iter__(self) -> Iterator[SuiteResult]:  # type: ignore[explicit-override]  # typing has it since Python 3.12
        THREADS.add(threading.get_ident())
        return super().__iter__()


THREADS: set[int] = set()


@pytest.mark.parametrize("is_large", [False, True])
def test_a_large_report_is_judged_beside_the_event_loop(*, is_large: bool) -> None:
    usual = a_report()
    report = dataclasses.replace(usual, suites=Noting(usual.suites))
    raw = b" " * ((LARGE_BYTES if is_large else 0) + 1)
    known = evidence(an_ended_pod(0, 0), an_ended_pod(1, 0), report=ReportFound(report=report, raw=raw, sha256=""))
    THREADS.clear()
    step = asyncio.run(reconcile._next_step(known))
    assert isinstance(step, WriteReport)
    assert (threading.get_ident() in THREADS) is not is_large


def stored(world: OperatorWorld, packed: bytes) -> None:
    """As its ConfigMap holds it; the log is gone."""
    owner = {"kind": "DistTest", "name": "nightly", "uid": UID, "controller": True}
    meta = {"name": "nightly-report", "namespace": "gpu-ci", "ownerReferences": [owner]}
    data = {naming.REPORT_KEY: base64.b64encode(packed).decode()}
    world.cluster.put(Kind.CONFIG_MAP, {"metadata": meta, "binaryData": data})
    world.cluster.logs.clear()


ROTTEN: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no gzip": lambda: b"hello",
    "half of it": lambda: gzip.compress(REPORT.raw)[:-40],
    "a wrong checksum": lambda: gzip.compress(REPORT.raw)[:-8] + b"12345678",
    "no report": lambda: gzip.compress(b"[1]"),
    "another run's": lambda: gzip.compress(a_report(uid="other").dumps()),
    "too large when unpacked": lambda: gzip.compress(b" " * (limits.REPORT_BYTES + 1) + REPORT.raw, 1),
}


@pytest.mark.parametrize("packed", ROTTEN.values(), ids=ROTTEN.keys())
def test_a_stored_report_that_is_damaged_is_invalid(packed: Callable[[], bytes]) -> None:
    world = OperatorWorld(retries={"infrastructure": 0})
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish()
    stored(world, packed())
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("InfraFailed", "ReportInvalid")
    assert "The report in ConfigMap nightly-report is invalid: " in world.status["message"]


def test_a_stored_report_that_is_not_base64_is_invalid() -> None:
    world = OperatorWorld(retries={"infrastructure": 0})
    world.look()
    world.pods(**RUNNING)
    world.finish()
    stored(world, b"")
    body = world.cluster.objects[Kind.CONFIG_MAP, "gpu-ci", "nightly-report"]
    for data in ({naming.REPORT_KEY: "ü!"}, {}, None):
        world.cluster.put(Kind.CONFIG_MAP, body | {"binaryData": data})
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("InfraFailed", "ReportInvalid")


def test_a_stored_report_is_used_when_the_log_is_gone() -> None:
    """The operator died between storing the report and counting the run; meanwhile the pod's node went."""
    world = OperatorWorld()
    world.cluster.cut = 7  # after the report's ConfigMap
    with pytest.raises(PowerCut):
        live(world)
    assert world.cluster.done[-1] == "create configmaps nightly-report"
    world.cluster.cut = None
    world.cluster.logs.clear()
    world.start()
    world.look()
    assert world.status["verdict"] == "Passed"


def a_large_log() -> str:
    case = CaseResult(id="t.py::test_a", outcome=Outcome.FAILED, seconds=1, message="x" * 4000)
    report = a_report_of(*[case] * (2 * LARGE_BYTES // 4000))
    return "\n".join(frames.encode(report.dumps(), NONCE))


async def read(cluster: FakeCluster, leader: str, room: reports.MemoryPermit) -> object:
    step = ReadReport(leader=an_ended_pod(0, 10, name=leader), nonce=NONCE, quarantine={})
    return await reports.read(cluster, a_test(), step, Uncounted(), permit=room)


def test_large_reports_are_read_one_after_the_other_and_small_ones_do_not_wait_for_them() -> None:
    async def main() -> None:
        cluster, lock = FakeCluster(), asyncio.Lock()
        cluster.logs |= {"large": a_large_log(), "small": "\n".join(frames.encode(REPORT.raw, NONCE))}
        permits = [reports.MemoryPermit(lock) for _ in range(3)]
        assert isinstance(await read(cluster, "large", permits[0]), ReportFound)
        waiting = asyncio.create_task(read(cluster, "large", permits[1]))
        assert isinstance(await read(cluster, "small", permits[2]), ReportLost), "it passed, without a report"
        while not waiting.done() and not lock._waiters:  # noqa: ASYNC110  # an asyncio.Lock has no public list of waiters
            await asyncio.sleep(0)
        assert not waiting.done()
        permits[0].release()
        assert isinstance(await waiting, ReportFound)
        assert lock.locked()
        permits[1].release()
        assert not lock.locked()

    asyncio.run(main())


def test_a_reconcile_releases_its_memory_permit() -> None:
    world = OperatorWorld(retries={"infrastructure": 0})
    world.report = found(a_report({f"test_{number}": Outcome.FAILED for number in range(20_000)}))
    assert len(world.report.raw) > LARGE_BYTES
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish()
    world.look()
    assert world.status["cases"]["failed"] == 20_000
    assert not world.reconciler._large_report.locked()
