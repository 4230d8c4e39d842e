"""A leader with few file descriptors: strangers take none that agents and ranks need."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from disttest_contract.outcomes import Outcome, Reason, Verdict
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

LIMIT = 160  # enough for two nodes, and less than the strangers that a leader without a budget lets in
FEW = ("bash", "-c", f'ulimit -Sn {LIMIT} && ulimit -Hn {LIMIT} && exec "$0" "$@"')
STRANGERS = 400
SOURCE = f"""
import resource

def test_ranks_have_the_limit_of_the_container(gang):
    assert gang.node_index or resource.getrlimit(resource.RLIMIT_NOFILE) == ({LIMIT}, {LIMIT})

def test_that_fails(): assert False

def test_in_the_next_generation(process_group): pass
"""


@contextlib.contextmanager
def flood(port: int) -> Iterator[threading.Event]:
    """Connections that say nothing, as many as there may be, opened again when they are closed."""
    ends, is_full = threading.Event(), threading.Event()

    def knock() -> None:
        opened: list[socket.socket] = []
        while not ends.is_set():
            with contextlib.suppress(OSError):
                opened.append(socket.create_connection(("127.0.0.1", port), timeout=1))
            if len(opened) >= STRANGERS:
                is_full.set()
                opened.pop(0).close()
        for one in opened:
            one.close()

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield is_full
    finally:
        ends.set()
        thread.join()


def test_a_leader_under_a_flood_of_strangers_lets_its_agents_in_and_starts_ranks_again(tmp_path: Path) -> None:
    plan = make_plan(suite_of(tmp_path / "suite", SOURCE), rendezvous_seconds=60)
    gang = AgentGang(plan, tmp_path, indexes=[0], wrap={0: FEW})
    gang.wait_for_line("2 nodes x 2 ranks")
    with flood(gang.port) as is_full:
        assert is_full.wait(60), gang.text
        gang.start(1)
        report = gang.run()
    outcomes = [case.outcome for case in report.suites[0].cases]
    assert outcomes == [Outcome.PASSED, Outcome.FAILED, Outcome.PASSED], gang.text
    assert "Too many open files" not in gang.text


def test_a_world_that_its_leader_has_too_few_descriptors_for_is_refused(tmp_path: Path) -> None:
    plan = make_plan(suite_of(tmp_path / "suite", SOURCE), nodes=100)
    gang = AgentGang(plan, tmp_path, indexes=[0], wrap={0: FEW})
    report = gang.run()
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.GANG_FAILED_TO_START)
    assert "the leader of 100 nodes x 2 ranks needs 196 open files, but its limit is 160" in report.message
