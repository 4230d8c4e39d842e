"""Faults of a device, on which calls only enqueue work: one suite on 2 x 2 ranks over the asynchronous stub."""

from dataclasses import replace
from pathlib import Path

from tests.integration.runner.faults import in_cases
from tests.integration.runner.faults.fault import After, Fault, FaultResult, Trial
from tests.integration.runner.faults.in_cases import CASE_SECONDS, DEADLINE, GRACE, QUICK
from tests.support.gangs import stub_device
from tests.support.gangs.gang import AgentGang, make_plan
from tests.support.gangs.sabotaged import why_no_kernels

STUB = "from tests.support.gangs import stub_device\n"
ENQUEUE = "dist.all_reduce(torch.ones(1))"  # nothing reads the result
ASSERT = "CUDA error: device-side assert triggered"
# As torch's watchdog writes it before it aborts the process.
WATCHDOG = "[PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: "
LOST_PEER = f"{WATCHDOG}NCCL error: remote process exited or there was a network error"
TIMEOUT = f"{WATCHDOG}[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE)"

FAULTS = (
    Fault(
        name="a kernel fails after its call", source=f"{STUB}if gang.rank == 2: stub_device.fail()",
        outcome="failed", ranks=(2,), words=("the device reported after the test's body", ASSERT),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a collective fails late on one rank",
        source=f"{STUB}if gang.rank == 3: stub_device.break_next('fails')\n{ENQUEUE}",
        outcome="failed", ranks=(3,), words=("the device reported after the test's body", ASSERT),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="every call fails on a poisoned device",
        source=f"{STUB}if gang.rank == 1: stub_device.poison()\nadd()",
        outcome="failed", ranks=(1,), words=(ASSERT, "had not finished when this rank failed"),
        limit_seconds=GRACE, after=After.NEXT_CASE,
    ),
    Fault(
        name="an exception on a poisoned device",
        source=f"{STUB}if gang.rank == 1: stub_device.poison()\nassert gang.rank != 1, 'one is odd'",
        outcome="failed", ranks=(1,), words=("one is odd", "the device reported after the case", ASSERT),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a collective never ends on one rank",
        source=f"{STUB}if gang.rank == 1: stub_device.break_next('never-ends')\n{ENQUEUE}",
        outcome="hung", ranks=(1,), words=("had not finished after",),
        limit_seconds=DEADLINE, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank misses an enqueued collective", source=f"if gang.rank != 1: {ENQUEUE}",
        outcome="hung", ranks=(1,), words=("had not finished after",),
        limit_seconds=DEADLINE, after=After.NEXT_CASE,
    ),
    Fault(
        name="a late collective",
        source=f"{STUB}if gang.rank == 1: stub_device.break_next('late')\n{ENQUEUE}",
        outcome="passed", limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank dies, so a watchdog aborts another one",
        source=f"""
if gang.rank == 2: os.kill(os.getpid(), signal.SIGKILL)
try: add()
except RuntimeError:
    if gang.rank == 0: print({LOST_PEER!r}, file=sys.stderr, flush=True), os.abort()
""",
        outcome="crashed", ranks=(2,), words=("rank 2 on local-1 was killed by SIGKILL",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a watchdog aborts a rank that waits for another one",
        source=f"""
if gang.rank == 1: time.sleep(1000)
{ENQUEUE}
time.sleep(0.5)  # until it has been enqueued by all ranks that are here
if gang.rank == 0: print({TIMEOUT!r}, file=sys.stderr, flush=True), os.abort()
""",
        outcome="hung", ranks=(1,), words=("rank 1 on local-0", "Watchdog caught collective operation timeout"),
        limit_seconds=DEADLINE, after=After.NEXT_CASE,
    ),
)  # fmt: skip  # a row reads as a sentence


def _show(folder: Path) -> dict[str, FaultResult]:
    suite = in_cases.suite(folder, "devices", FAULTS)
    plan = make_plan(suite, case_seconds=CASE_SECONDS, run_seconds=200, backend=stub_device.BACKEND)
    gang = AgentGang(plan, folder, environ=stub_device.environment(folder / "hooks"))
    try:
        report = gang.run()
    finally:
        gang.end()
    return {name: replace(one, log=gang.text) for name, one in in_cases.read(report.suites[0], FAULTS).items()}


TRIALS = (Trial(title="devices", faults=FAULTS, show=_show, lacks=why_no_kernels),)
