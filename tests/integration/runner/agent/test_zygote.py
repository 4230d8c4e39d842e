"""Forking ranks is safe as long as nothing has started the CUDA driver: seen with GPUs that are pretended.

Nothing here proves that a real driver works in a forked rank; it proves that none is asked before the fork.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from disttest_contract.gang import suites
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Verdict
from disttest_runner.cases import preload, rank_orders
from disttest_runner.protocol.wire import Channel, Message
from disttest_runner.zygote import zygote_client
from tests.support import patience
from tests.support.gangs import pretended_gpus
from tests.support.gangs.gang import AgentGang, builtin, case, make_plan, suite_of
from tests.support.gangs.pretended_gpus import Pretended

pytestmark = pytest.mark.skipif(pretended_gpus.COMPILER is None, reason="no C compiler here")
WARM_SECONDS = 240  # a busy machine may need most of it


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretended:
    """In the environment of whatever the test starts."""
    found = pretended_gpus.build(tmp_path / "driver")
    for name, value in found.environ.items():
        monkeypatch.setenv(name, value)
    return found


def warm(modules: Iterable[str], own: Mapping[str, str] = MappingProxyType({})) -> tuple[int, Message]:
    """A zygote's process ID, and its message after it has imported them."""
    zygote = zygote_client.start_zygote(tuple(modules), own)
    try:
        zygote.control.setblocking(True)
        zygote.control.settimeout(patience.stretched(WARM_SECONDS))
        message = Channel(zygote.control).receive()
        assert message is not None, os.read(zygote.output, 1 << 16).decode()
        return zygote.process.pid, message
    finally:
        zygote.process.kill()
        zygote.process.wait()
        zygote.control.close()
        os.close(zygote.output)


NODES = {
    "2 GPUs": {},
    "8 GPUs": pretended_gpus.EIGHT,
    "7 of 8 GPUs": {**pretended_gpus.EIGHT, "cuda_gpus": 7},
    "MIG": {**pretended_gpus.EIGHT, "mig_instances": 7, "cuda_gpus": 1},
    "no fabric manager": {**pretended_gpus.EIGHT, "cuinit": 802},
}


@pytest.mark.soak
@pytest.mark.parametrize("numbers", NODES.values(), ids=NODES)
def test_no_zygote_starts_the_driver_whatever_its_suites_import(
    numbers: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = pretended_gpus.build(tmp_path / "driver", **numbers)
    for name, value in gpus.environ.items():
        monkeypatch.setenv(name, value)
    if numbers:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    plans = [builtin(name) for name in sorted(suites.BUILTIN)]
    modules = dict.fromkeys(module for suite in plans for module in preload.modules_of_suite(suite))
    own = {key: value for suite in plans for key, value in rank_orders.environment(make_plan(*plans), suite).items()}
    _, message = warm(modules, own)
    assert message["unsafe"] == ""
    assert gpus.starts() == []


def test_torchs_own_suite_is_collected_for_gpus_by_ranks_that_were_forked(tmp_path: Path) -> None:
    """Over NCCL, on eight GPUs of which it counts two ranks; the case itself uses none."""
    gpus = pretended_gpus.build(tmp_path / "driver", **pretended_gpus.EIGHT)
    suite = SuitePlan(name="spawn", builtin="c10d-spawn", select="test_Backend_enum_class")
    plan = make_plan(suite, nodes=1, backend="nccl", case_seconds=60)
    gang = AgentGang(plan, tmp_path, environ=gpus.environ_with_runtime)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    assert report.preflight[0].gpus == ("pretended",) * 8
    assert "start in new interpreters" not in gang.text
    assert len(gpus.starts()) == 1, "the agent asks once, in a separate process"


def test_where_there_is_no_gpu_a_zygote_can_fork_after_the_import_of_torchs_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness asks torch for GPUs, and torch asks the driver where NVML does not work."""
    without = pretended_gpus.build(tmp_path / "driver", nvml_answer=pretended_gpus.NVML_HAS_NO_DRIVER)
    for name, value in without.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    pid, message = warm(["torch.testing._internal.common_utils"])
    assert message["unsafe"] == ""
    assert len(without.starts()) == 1, "a copy of the zygote asks once"
    assert pid not in without.starts()


def test_a_zygote_that_asked_the_driver_is_noticed(tmp_path: Path, gpus: Pretended) -> None:
    (tmp_path / "asks_the_driver.py").write_text(
        "import torch\ntorch.cuda.device_count()\ntorch._C._cuda_getDeviceCount()\n"
    )
    ours, theirs = socket.socketpair()
    environ = {**os.environ, **zygote_client.ENVIRONMENT, "PYTHONPATH": str(tmp_path)}
    arguments = [str(theirs.fileno()), str(os.getpid()), *preload.ALWAYS, "asks_the_driver"]
    command = [sys.executable, "-m", zygote_client.PROGRAM, *arguments]
    with ours, theirs, subprocess.Popen(command, env=environ, pass_fds=[theirs.fileno()]) as process:
        try:
            ours.settimeout(patience.stretched(WARM_SECONDS))
            message = Channel(ours).receive()
        finally:
            process.kill()
    assert message is not None
    assert "driver" in message["unsafe"]
    assert process.pid in gpus.starts()


ASKS = """
import os
import pytest
import torch

def test_gpus_are_seen_and_the_fork_is_good():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    assert not torch.cuda._is_in_bad_fork()

def test_the_driver_answers_this_rank():
    with pytest.raises(RuntimeError, match="No CUDA|no CUDA|CUDA"):
        torch.cuda.init()
    print("started by", os.getpid(), flush=True)
"""


def test_ranks_start_the_driver_themselves_after_the_fork(tmp_path: Path, gpus: Pretended) -> None:
    gang = AgentGang(make_plan(suite_of(tmp_path / "suite", ASKS), nodes=1), tmp_path, environ=gpus.environ)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    assert case(report, "test_the_driver_answers_this_rank").outcome is Outcome.PASSED
    ranks = {int(line.split()[-1]) for line in gang.log if "started by" in line}
    assert len(ranks) == 2
    assert set(gpus.starts()) == ranks
    assert "start in new interpreters" not in gang.text
