"""What a limit of open files leaves for strangers, and which limit is too low."""

import dataclasses
import resource
import subprocess
import sys

import pytest

from disttest_runner.linux.resource_limits import MOST_STRANGERS, OpenFiles
from tests.support.gangs.gang import make_plan

PLAN = make_plan(nodes=2, ranks=8)
DEBIAN = 1024


@pytest.mark.parametrize(
    ("nodes", "limit", "strangers"), [(2, 65536, MOST_STRANGERS), (2, DEBIAN, MOST_STRANGERS), (512, DEBIAN, 192)]
)
def test_strangers_get_what_the_gang_does_not_need(nodes: int, limit: int, strangers: int) -> None:
    found = OpenFiles.of(dataclasses.replace(PLAN, nodes=nodes), 0, limit)
    assert found.problem == ""
    assert found.strangers == strangers


@pytest.mark.parametrize("limit", range(200, 1200, 7))
def test_the_gang_keeps_what_it_needs_whatever_strangers_do(limit: int) -> None:
    found = OpenFiles.of(dataclasses.replace(PLAN, nodes=64), 0, limit)
    gang = 64 + 64 + 8 * 8
    assert found.problem or gang + found.strangers + 3 * found.accepted_at_once <= limit


def test_a_world_that_does_not_fit_is_refused_with_both_numbers() -> None:
    leader = OpenFiles.of(dataclasses.replace(PLAN, nodes=1000), 0, DEBIAN)
    assert "the leader of 1000 nodes x 8 ranks needs 1144 open files, but its limit is 1024" in leader.problem
    assert OpenFiles.of(dataclasses.replace(PLAN, nodes=1000), 1, DEBIAN).problem == "", "only the leader is limited"
    follower = OpenFiles.of(dataclasses.replace(PLAN, ranks_per_node=128), 1, DEBIAN)
    assert "an agent of 128 ranks needs 1088 open files" in follower.problem


def test_an_agent_raises_its_own_limit_and_its_children_get_the_one_it_was_started_with() -> None:
    source = """
import resource, subprocess, sys
from disttest_runner.linux import resource_limits
now = resource_limits.raise_limit()
child = subprocess.Popen(["sleep", "60"])
resource_limits.lower_limit(child.pid)
print(now, resource.getrlimit(resource.RLIMIT_NOFILE)[0], *resource.prlimit(child.pid, resource.RLIMIT_NOFILE))
child.kill()
"""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    command = f'ulimit -Sn 200; exec "{sys.executable}" -c "$0"'
    done = subprocess.run(["bash", "-c", command, source], capture_output=True, text=True, check=True)
    now, soft, *of_child = map(int, done.stdout.split())
    assert now == soft == (65536 if hard == resource.RLIM_INFINITY else min(hard, 65536))
    assert of_child == [200, hard]
