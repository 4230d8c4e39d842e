"""Faults of test code: a case each, in one suite on 2 x 2 ranks; the next case checks that the gang is intact."""

from pathlib import Path

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.results.report import SuiteResult
from tests.integration.runner.faults.fault import After, Fault, FaultResult, of_case
from tests.support.gangs.gang import suite_of

CASE_SECONDS = 4
QUICK = 3.5  # a crash is reported within 0.2 s; this machine may be busy
GRACE = 3 + 2.5  # peers of a failed rank are given 3 s
DEADLINE = CASE_SECONDS + 3.0

PRELUDE = '''
import collections, ctypes, itertools, logging, os, random, signal, subprocess, sys, threading, time, warnings
import numpy, pytest, torch
import torch.distributed as dist

MARK = "LEFT_BEHIND_BY_A_FAULT"

def add(group=None):
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group)
    return int(tensor)

def draw():
    return random.random(), float(torch.rand(1)), float(numpy.random.rand())

def facts():
    """What a case finds when it begins."""
    return {
        "cwd": os.getcwd(), "mark": MARK in os.environ, "home": os.environ.get("HOME"), "umask": os.umask(0o22),
        "handlers": [signal.getsignal(n) for n in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM)],
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()), "timer": signal.getitimer(signal.ITIMER_REAL),
        "path": [entry for entry in sys.path if MARK in entry],
        "filters": [f for f in warnings.filters if f[2] is UserWarning],
        "dtype": torch.get_default_dtype(), "device": torch.empty(1).device, "grad": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(), "draw": draw(), "logging": logging.root.manager.disable,
        "recursion": sys.getrecursionlimit(), "trace": sys.gettrace(),
        "streams": (sys.stdout.closed, os.fstat(1).st_ino == os.fstat(2).st_ino),
    }

RANK = int(os.environ["RANK"])
SEEDED = (
    random.Random(RANK).random(), float(torch.rand(1, generator=torch.Generator().manual_seed(RANK))),
    float(numpy.random.RandomState(RANK).rand()),
)
FIRST = facts() | {"draw": SEEDED}  # before any case

def sleepers():
    """Processes of this gang that a case has left behind."""
    mark = ("RUNNER_TEST_MARK=" + os.environ["RUNNER_TEST_MARK"]).encode()
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/environ", "rb") as variables:
                if b"1000.5" in line.read() and mark in variables.read():
                    found.append(pid)
        except OSError:
            pass
    return found

def healthy(gang, process_group):
    found = facts()
    assert found == FIRST
    deadline = time.monotonic() + 2  # they were killed, which takes a moment
    while sleepers():
        assert time.monotonic() < deadline, sleepers()
    print("healthy", flush=True)
    assert add(process_group) == gang.world_size
    half = dist.new_group([0, 1])
    assert gang.rank > 1 or add(half) == 2
'''

CRASHES = (
    Fault(
        name="SIGSEGV while other ranks wait", source="if gang.rank == 1: ctypes.string_at(0)\nadd()",
        outcome="crashed", ranks=(1,), words=("rank 1 on local-0 was killed by SIGSEGV during the case",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="SIGKILL", source="if gang.rank == 3: os.kill(os.getpid(), signal.SIGKILL)\nadd()",
        outcome="crashed", ranks=(3,), words=("rank 3 on local-1 was killed by SIGKILL",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank aborts", source="if gang.rank == 2: os.abort()\nadd()",
        outcome="crashed", ranks=(2,), words=("rank 2 on local-1 was killed by SIGABRT",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="os._exit(0)", source="if gang.rank == 0: os._exit(0)\nadd()",
        outcome="crashed", ranks=(0,), words=("rank 0 on local-0 exited with code 0 during the case",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="pytest.exit", source="if gang.rank == 1: pytest.exit('enough')\nadd()",
        outcome="crashed", ranks=(1,), words=("rank 1 on local-0 exited with code",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank closes all file descriptors",
        source="if gang.rank == 1: os.closerange(3, 1000)\ntime.sleep(0.05)",
        outcome="crashed", ranks=(1,), words=("rank 1 on local-0",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="all ranks die", source="os.kill(os.getpid(), signal.SIGBUS)",
        outcome="crashed", ranks=(0, 1, 2, 3), words=("ranks 0, 1, 2, 3 on local-0, local-1 were killed by SIGBUS",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank dies, so another one aborts",
        source="""
if gang.rank == 2: os.kill(os.getpid(), signal.SIGKILL)
try: add()
except RuntimeError: os.abort() if gang.rank == 0 else None
""",
        outcome="crashed", ranks=(2,), words=("rank 2 on local-1 was killed by SIGKILL",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank fails, so another one aborts",
        source="""
assert gang.rank != 2, "two is odd today"
time.sleep(1.5)  # its report comes first, on a busy machine as well
os.abort() if gang.rank == 0 else None
""",
        outcome="failed", ranks=(2,), words=("two is odd today", "rank 0 on local-0 aborted because of it"),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank dies after its result",
        source="if gang.rank == 2: threading.Timer(0.0, os._exit, (7,)).start()",
        outcome="crashed", ranks=(2,), words=("rank 2 on local-1 exited with code 7",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a crashed case leaves processes behind",
        source="os.system('setsid sleep 1000.5 &')\nassert add() == 4\nif gang.rank == 1: os._exit(3)",
        outcome="crashed", ranks=(1,), words=("rank 1 on local-0 exited with code 3",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank leaves its process group and another one dies",
        source="""
if gang.rank == 1: os.setpgid(0, os.getpgid(os.getppid()))
if gang.rank == 0: os._exit(3)
add()
""",
        outcome="crashed", ranks=(0,), words=("rank 0 on local-0 exited with code 3",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
    Fault(
        name="a rank kills its zygote",
        source="if gang.rank == 3: os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(3) if gang.rank > 1 else add()",
        outcome="crashed", ranks=(2, 3), words=("ranks 2, 3 on local-1",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
)  # fmt: skip  # a row reads as a sentence

FAILURES = (
    Fault(
        name="an exception while other ranks wait",
        source="assert gang.rank != 2, 'two is odd today'\nadd()",
        outcome="failed", ranks=(2,), words=("two is odd today", "had not finished when this rank failed"),
        limit_seconds=GRACE, after=After.NEXT_CASE,
    ),
    Fault(
        name="sys.exit(0)", source="if gang.rank == 1: sys.exit(0)\nadd()",
        outcome="failed", ranks=(1,), words=("SystemExit: 0",),
        limit_seconds=GRACE, after=After.NEXT_CASE,
    ),
    Fault(
        name="a message of 1 MB with invalid characters",
        source="assert gang.rank != 3, 'x\\ud800\\0' * (1 << 20)",
        outcome="failed", ranks=(3,), words=("rank 3 on local-1",),
        limit_seconds=GRACE, after=After.NEXT_CASE,
    ),
    Fault(
        name="a case ID of 5,000 characters", source="assert gang.rank != 1, 'the one of the long name'",
        outcome="failed", ranks=(1,), words=("the one of the long name",),
        limit_seconds=QUICK, after=After.NEXT_CASE,
    ),
)  # fmt: skip

HANGS = (
    Fault(
        name="a rank sleeps", source="def stuck(): time.sleep(1000)\nif gang.rank == 1: stuck()\nadd()",
        outcome="hung", ranks=(1,), words=("had not finished after",),
        limit_seconds=DEADLINE, after=After.NEXT_CASE,
    ),
    Fault(
        name="C code holds the interpreter's lock",
        source="if gang.rank == 2: collections.deque(itertools.repeat(0), maxlen=0)\nadd()",
        outcome="hung", ranks=(2,), words=("had not finished after",),
        limit_seconds=DEADLINE, after=After.NEXT_CASE,
    ),
    Fault(
        name="SIGSTOP", source="if gang.rank == 3: os.kill(os.getpid(), signal.SIGSTOP)\nadd()",
        outcome="hung", ranks=(3,), words=("stopped",),
        limit_seconds=DEADLINE, after=After.NEXT_CASE,
    ),
)  # fmt: skip


def suite(folder: Path, name: str, faults: tuple[Fault, ...]) -> SuitePlan:
    parts = [PRELUDE]
    for number, fault in enumerate(faults):
        body = "\n    ".join(fault.source.strip().splitlines())
        head = f"test_fault_{number}(gang, process_group"
        if fault.name.startswith("a case ID of"):
            parts.append(f"@pytest.mark.parametrize('long', ['y' * 5000])\ndef {head}, long):\n    {body}\n")
        else:
            parts.append(f"def {head}):\n    {body}\n")
        parts.append(f"def test_next_{number}(gang, process_group): healthy(gang, process_group)\n")
    return suite_of(folder / name, "\n".join(parts), name=name)


def read(result: SuiteResult, faults: tuple[Fault, ...]) -> dict[str, FaultResult]:
    """By the names of faults."""
    cases = {one.id.split("::")[-1].split("[")[0]: one for one in result.cases}
    return {
        fault.name: of_case(cases[f"test_fault_{number}"], cases.get(f"test_next_{number}"))
        for number, fault in enumerate(faults)
        if f"test_fault_{number}" in cases
    }
