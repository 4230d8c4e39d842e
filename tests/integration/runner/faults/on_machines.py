"""Faults of a node: no memory, no space, no place to write. One gang, one node for each, one rank on each."""

import os
import shlex
import subprocess
from pathlib import Path

from disttest_contract.gang import environment
from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult
from tests.integration.runner.faults.cgroup import Cgroup
from tests.integration.runner.faults.fault import After, Fault, FaultResult, Trial, of_case
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

MEMORY_BYTES = 3 << 29  # agent, zygote and two ranks need a quarter of it
QUICK = 4.0
NODES = ("sound", "read-only", "no-shm", "full-disk")

SUITE = """
import errno, multiprocessing, os, tempfile
import pytest, torch
import torch.distributed as dist

def add():
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return int(tensor)

def test_read_only(gang, process_group):
    if gang.rank == 1:
        for folder in ("/", "/tmp", "/var/tmp", "/dev/shm", os.getcwd(), os.path.expanduser("~")):
            with pytest.raises(OSError):
                open(os.path.join(folder, "written"), "w")
    assert add() == gang.world_size

def test_no_shm(gang, process_group):
    if gang.rank == 2:
        with pytest.raises(OSError):
            multiprocessing.get_context("spawn").Lock()
    assert add() == gang.world_size

def test_full_disk(gang, process_group):
    if gang.rank == 3:
        with open(os.path.join(os.environ["TMPDIR"], "checkpoint"), "wb") as file:
            file.write(bytes(1 << 20))
    add()

def test_out_of_memory(gang, process_group):
    if gang.rank == 1:
        kept = [b"x" * (1 << 26) for _ in range(40)]
    add()

def test_last(gang, process_group):
    assert add() == gang.world_size
"""


def _good(name: str, outcome: str = "passed") -> Fault:
    return Fault(name=name, outcome=outcome, limit_seconds=QUICK, after=After.NEXT_CASE)


READ_ONLY = _good("read-only file systems")
NO_SHM = _good("no /dev/shm")
FULL_DISK = Fault(
    name="a full disk", outcome="failed", ranks=(3,), words=("No space left on device",),
    limit_seconds=QUICK + 3, after=After.NEXT_CASE,
)  # fmt: skip  # a row reads as a sentence
OUT_OF_MEMORY = Fault(
    name="out of memory", outcome="crashed", ranks=(1,),
    words=("rank 1 on local-0 was killed by SIGKILL during the case: the container was out of memory",),
    limit_seconds=QUICK + 36, after=After.NEXT_CASE,
)  # fmt: skip


def _shell(script: str) -> list[str]:
    """In a separate mount namespace; the script ends by executing the agent."""
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    return [*unshare, "sh", "-c", f'set -e; {script}; exec "$@"', "sh"]


def lacks_namespaces() -> str:
    tried = subprocess.run(
        [*_shell("mount -t tmpfs none /dev/shm"), "true"], capture_output=True, text=True, check=False
    )
    return f"no mount namespace can be made here: {tried.stderr.strip()}" if tried.returncode else ""


def lacks_cgroup() -> str:
    return Cgroup.lacks()


def _read_only(folder: Path) -> list[str]:
    """But for the termination message, which a kubelet mounts from elsewhere."""
    message = shlex.quote(str(folder / "termination-1"))
    mount_read_only = "mount -t tmpfs -o ro none"
    return _shell(
        f"touch {message}; mount --bind {message} {message}; {mount_read_only} /dev/shm; mount -o remount,bind,ro /; "
        f"for place in /tmp /var/tmp; do test ! -w $place || mount -o remount,bind,ro $place; done"
    )


def _full_disk(place: Path) -> list[str]:
    where = shlex.quote(str(place))
    return _shell(f"mount -t tmpfs -o size=64k none {where}; cat /dev/zero > {where}/filler 2>/dev/null || true")


def _show(folder: Path) -> dict[str, FaultResult]:
    place = folder / "disk"
    place.mkdir()
    full = {"TMPDIR": str(place), environment.TERMINATION_LOG: str(place / "termination")}
    gang = AgentGang(
        _plan(folder, len(NODES)),
        folder,
        wrap={1: _read_only(folder), 2: _shell("mount -t tmpfs -o ro none /dev/shm"), 3: _full_disk(place)},
        own={1: {"TMPDIR": "", "HOME": "/"}, 3: full},
    )
    found = _run(gang, {READ_ONLY: "test_read_only", NO_SHM: "test_no_shm", FULL_DISK: "test_full_disk"})
    warning = "the termination message cannot be written"
    if warning not in gang.text:
        found[FULL_DISK.name] = FaultResult(outcome=f"no warning that {warning}", seconds=0, after="")
    return found


def _show_out_of_memory(folder: Path) -> dict[str, FaultResult]:
    with Cgroup(MEMORY_BYTES) as cgroup:
        gang = AgentGang(_plan(folder, 1, ranks=2), folder, wrap={0: cgroup.wrap})
        return _run(gang, {OUT_OF_MEMORY: "test_out_of_memory"})


def _plan(folder: Path, nodes: int, ranks: int = 1) -> RunPlan:
    return make_plan(
        suite_of(folder / "suite", SUITE),
        nodes=nodes,
        ranks=ranks,
        case_seconds=60,
        rendezvous_seconds=60,
        run_seconds=300,
    )


def _run(gang: AgentGang, cases: dict[Fault, str]) -> dict[str, FaultResult]:
    try:
        report = gang.run()
    finally:
        gang.end()
    by_name: dict[str, CaseResult] = {one.id.split("::")[-1]: one for suite in report.suites for one in suite.cases}
    missing = CaseResult(id="", outcome=Outcome.NOT_RUN, seconds=0, message=report.message)
    return {fault.name: of_case(by_name.get(name, missing), by_name.get("test_last")) for fault, name in cases.items()}


TRIALS = (
    Trial(
        title="nodes that cannot be written to",
        faults=(READ_ONLY, NO_SHM, FULL_DISK),
        show=_show,
        lacks=lacks_namespaces,
    ),
    Trial(title="a node short of memory", faults=(OUT_OF_MEMORY,), show=_show_out_of_memory, lacks=lacks_cgroup),
)
