"""Rules that come with the operator: what is proven to be the hardware's, and what is left to the tests."""

import json
import time
from typing import Any

import pytest

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.hardware import matcher
from disttest_operator.core.hardware.known_signs import GPU_CONDITIONS, KNOWN, NODE_CONDITIONS
from disttest_operator.core.hardware.matcher import Signs, first_match
from disttest_operator.core.observed.evidence import Match
from tests.support.builders.runs import a_pod, condition
from tests.support.paths import ROOT

NODE_UNHEALTHY = Reason.NODE_UNHEALTHY

GANG = (a_pod(0, name="t-0", node="node-a"), a_pod(1, name="t-1", node="node-b"))

# Lines as they were seen in logs, and what they prove.
PROOFS = [
    (
        "NVRM: Xid (PCI:0000:cb:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        Reason.GPU_UNHEALTHY,
    ),
    ("NVRM: Xid (PCI:0000:05:00): 119, pid=2, name=python, Timeout after 6s of waiting for RPC", Reason.GPU_UNHEALTHY),
    ("Unable to determine the device handle for GPU0: GPU is lost.  Reboot the system", Reason.GPU_UNHEALTHY),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", Reason.GPU_UNHEALTHY),
    ("CUDA error: uncorrectable NVLink error detected during the execution", Reason.GPU_UNHEALTHY),
    ("transport/nvls.cc:254 NCCL WARN Cuda failure 802 'system not yet initialized'", Reason.GPU_UNHEALTHY),
    ("NCCL WARN NET/IB : mlx5_0:1 Got async event : local catastrophic error", NODE_UNHEALTHY),
]
NO_BLAME = [
    (
        "misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        NODE_UNHEALTHY,
    )
]

# What a test's own mistake, or the end of a peer, can bring about.
NO_PROOFS = [
    "NVRM: Xid (PCI:0000:cb:00): 13, pid=1, name=python, Graphics SM Warp Exception",
    "NVRM: Xid (PCI:0000:cb:00): 31, pid=1, name=python, MMU Fault",
    "NVRM: Xid (PCI:0000:cb:00): 43, pid=1, name=python, channel 0x20",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: CUDA error: unspecified launch failure",
    "torch.OutOfMemoryError: CUDA out of memory.",
    "ncclUnhandledCudaError: Call to CUDA function failed.",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    "NCCL WARN NET/IB: Got completion from peer 10.0.0.5<33092> with status=12 opcode=129 len=0 vendor err 129",
    "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
    "Some NCCL operations have failed or timed out. The watchdog caught a collective operation timeout",
    "RuntimeError: Connection closed by peer",
]


def judged(text: str) -> Match | None:
    return first_match(KNOWN, Signs(gang=GANG, lines=tuple(matcher.of_log(f"[rank 3] {text}".encode(), 0, 2))))


@pytest.mark.parametrize(("text", "reason"), PROOFS + NO_BLAME, ids=[text[:50] for text, _ in PROOFS + NO_BLAME])
def test_a_line_proves_that_the_hardware_is_broken(text: str, reason: Reason) -> None:
    match = judged(text)
    assert match is not None
    assert (match.verdict, match.reason, match.retry) == (Verdict.INFRA_FAILED, reason, True)
    assert match.nodes == (() if (text, reason) in NO_BLAME else ("node-b",))


@pytest.mark.parametrize("text", NO_PROOFS)
def test_a_line_proves_nothing(text: str) -> None:
    assert judged(text) is None


# What NCCL, CUDA, torch and the kernel write, in the forms of their sources or of published logs: none was recorded on
# broken hardware. `reason` is empty where a test, or the end of a peer, can be the cause.
EXCERPTS = [
    one for path in sorted((ROOT / "tests/data/log_excerpts").glob("*.json")) for one in json.loads(path.read_text())
]


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=[one["name"] for one in EXCERPTS])
def test_an_excerpt_of_a_log_blames_the_node_that_it_is_about(excerpt: dict[str, Any]) -> None:
    found = judged("\n[rank 3] ".join(excerpt["lines"]))
    assert (found.reason.value if found else None) == excerpt["reason"]
    assert (found.nodes if found else ()) == (("node-b",) if excerpt["blame"] else ())


@pytest.mark.parametrize(("name", "status"), GPU_CONDITIONS + NODE_CONDITIONS)
def test_a_condition_proves_that_the_node_is_unhealthy_and_its_opposite_does_not(name: str, status: str) -> None:
    def seen(*, is_true: bool) -> Signs:
        return Signs(gang=GANG, nodes={"node-a": {name: condition(is_true=is_true)}})

    match = first_match(KNOWN, seen(is_true=status == "True"))
    assert match is not None
    assert (match.verdict, match.nodes) == (Verdict.INFRA_FAILED, ("node-a",))
    assert first_match(KNOWN, seen(is_true=status != "True")) is None


def test_a_whole_log_is_searched_in_seconds_at_most() -> None:
    """A leader's log has at most 1 MiB of what ranks wrote; a test may write what takes longest to search."""
    hostile = "[rank 0] " + "NVRM: Xid (CUDA Call to ibv_ NET/IB : " * 100
    lines = tuple(matcher.of_log("\n".join([hostile[:4096]] * 256).encode(), 0, 2))
    started = time.process_time()
    assert first_match(KNOWN, Signs(gang=GANG, lines=lines)) is None
    assert time.process_time() - started < 5
