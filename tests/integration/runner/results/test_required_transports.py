"""A run reads which network its ranks used from NCCL's log, reports it, and fails if its plan requires another."""

import dataclasses
from pathlib import Path

import pytest

from disttest_contract.outcomes import ExitCode, Reason, Verdict
from disttest_contract.results.network_transport import NetworkTransport as Used
from disttest_contract.results.report import Report
from tests.support.gangs import nccl_writer
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

EXCERPTS = Path(__file__).parents[3] / "data" / "nccl_logs"
SUITE = """
import torch
import torch.distributed as dist

def test_sum(process_group):
    dist.all_reduce(torch.ones(1))

def test_another_sum(process_group):
    dist.all_reduce(torch.ones(1))
"""
WITHOUT_NCCL = "def test_good(): pass"


def run(
    folder: Path, excerpts: dict[str, str], transport: str, *, suite: str = SUITE, backend: str = nccl_writer.BACKEND
) -> tuple[AgentGang, Report]:
    """The excerpts by rank, or for `all`."""
    place = folder / "excerpts"
    place.mkdir()
    for name, excerpt in excerpts.items():
        (place / f"{name}.log").write_text((EXCERPTS / f"{excerpt}.log").read_text())
    plan = dataclasses.replace(make_plan(suite_of(folder / "suite", suite), backend=backend), transport=transport)
    gang = AgentGang(plan, folder, environ=nccl_writer.environment(folder / "hook", place))
    return gang, gang.run()


def test_the_transport_is_reported(tmp_path: Path) -> None:
    gang, report = run(tmp_path, {"all": "2.18-ib-gdr"}, "rdma")
    assert report.verdict is Verdict.PASSED
    assert report.transport.words == "rdma (IB, GPUDirect RDMA)"
    assert "transport: rdma (IB, GPUDirect RDMA)" in gang.log


def test_ranks_that_differ_are_named(tmp_path: Path) -> None:
    _, report = run(tmp_path, {"all": "2.22-efa", "2": "2.21-one-node"}, "any")
    assert report.verdict is Verdict.PASSED
    assert report.transport.used.transport is Used.PLUGIN
    assert [(group.ranks, group.used.transport) for group in report.transport.groups] == [
        ("0-1,3", Used.PLUGIN),
        ("2", Used.LOCAL),
    ]


def test_a_run_on_another_network_ends_as_soon_as_it_is_known(tmp_path: Path) -> None:
    gang, report = run(tmp_path, {"all": "2.18-ib-gdr", "3": "2.17-socket"}, "rdma")
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.WRONG_TRANSPORT)
    assert report.message.startswith("spec.transport is rdma, but rank 3 on local-1 used tcp (Socket). Check that")
    assert report.transport.used.transport is Used.TCP
    assert gang.agents[0].returncode == ExitCode.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("excerpts", "suite", "unknown"),
    [
        ({}, SUITE, "ranks 0, 1, 2, 3 on local-0, local-1"),
        ({"all": "2.18-ib-gdr", "1": "2.30-warnings-only"}, SUITE, "rank 1 on local-0"),
        ({"all": "2.18-ib-gdr"}, WITHOUT_NCCL, "ranks 0, 1, 2, 3 on local-0, local-1"),
    ],
    ids=["no log", "one rank without lines", "no rank uses NCCL"],
)
def test_a_run_that_proves_nothing_does_not_pass(
    tmp_path: Path, excerpts: dict[str, str], suite: str, unknown: str
) -> None:
    _, report = run(tmp_path, excerpts, "rdma", suite=suite)
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.WRONG_TRANSPORT)
    assert f"the transport of {unknown} is unknown" in report.message


def test_a_failed_case_outweighs_what_is_unknown(tmp_path: Path) -> None:
    _, report = run(tmp_path, {}, "rdma", suite="def test_bad(): assert False")
    assert (report.verdict, report.reason) == (Verdict.TESTS_FAILED, Reason.CASES_FAILED)


def test_gloo_uses_tcp(tmp_path: Path) -> None:
    _, report = run(tmp_path, {}, "tcp", backend="gloo")
    assert report.verdict is Verdict.PASSED
    assert report.transport.words == "tcp (gloo)"
