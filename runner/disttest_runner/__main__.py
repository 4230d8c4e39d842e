"""`python -m disttest_runner`: the agent of a pod. Its environment contains its plan."""

# ruff: noqa: E402  # the other imports take a while
from disttest_runner.agent import early_signals

early_signals.listen()

import argparse
import asyncio
import os
import signal
import sys

from disttest_contract.gang import environment, suites
from disttest_contract.gang.environment import AgentEnvironment
from disttest_contract.gang.plan import InvalidPlanError, RunPlan
from disttest_contract.outcomes import ExitCode, Reason, Verdict
from disttest_contract.text import formatting
from disttest_contract.transport.termination_message import Summary
from disttest_runner.agent import agent
from disttest_runner.cases import preload, rank_orders
from disttest_runner.linux import processes, resource_limits
from disttest_runner.output.log import Log
from disttest_runner.output.termination import TerminationMessage
from disttest_runner.zygote import zygote_client


def main() -> int:
    parser = argparse.ArgumentParser(prog="disttest_runner", description=__doc__)
    parser.add_argument("--parent", type=int, default=0, help="Exit when this process (the parent) exits")
    options = parser.parse_args()
    if options.parent:
        processes.die_with_parent(options.parent, signal.SIGTERM)
    try:
        me = AgentEnvironment.read(os.environ)
        check(me.plan)
    except InvalidPlanError as error:
        return _refuse(Reason.RUNNER_ERROR, str(error))
    unknown = [suite.builtin for suite in me.plan.suites if suite.builtin and suite.builtin not in suites.BUILTIN]
    if unknown:
        return _refuse(
            Reason.UNKNOWN_SUITE, f"the runner has no built-in suite {unknown[0]!r}. Built-in suites: {suites.known()}"
        )
    max_open_files = resource_limits.raise_limit()
    # Started first, since its imports take longest: the agent and the network start meanwhile.
    first = me.plan.suites[0]
    zygote = zygote_client.start_zygote(preload.modules_of_suite(first), rank_orders.environment(me.plan, first))
    return int(asyncio.run(agent.run(me, zygote, early_signals.received, max_open_files=max_open_files)))


def check(plan: RunPlan) -> None:
    """Raise InvalidPlanError for a plan that no gang could run."""
    if plan.world_size < 1:
        size = formatting.gang_size(plan.nodes, plan.ranks_per_node)
        raise InvalidPlanError(f"{size} are no ranks. Set nodes and ranksPerNode to at least 1")
    if not plan.suites:
        raise InvalidPlanError("the plan has no suites")


def _refuse(reason: Reason, message: str) -> int:
    """Report an error without starting anything. Every agent of the gang does the same."""
    log = Log()
    log.say(f"{Verdict.ERRORED} ({reason}): {message}")
    uid, attempt, index = _identity()
    path = os.environ.get(environment.TERMINATION_LOG) or environment.TERMINATION_LOG_DEFAULT
    summary = Summary(
        uid=uid,
        attempt=attempt,
        node_index=index,
        step="finished",
        verdict=Verdict.ERRORED,
        reason=reason,
        message=message,
    )
    TerminationMessage(path, summary, log)
    return ExitCode.CONFIGURATION


def _identity() -> tuple[str, int, int]:
    """Return uid, attempt and node index, as far as an incomplete environment has them."""
    index = os.environ.get(environment.NODE_INDEX, "")
    node_index = int(index) if index.isdecimal() else 0
    try:
        plan = RunPlan.from_json(os.environ.get(environment.PLAN, ""))
    except InvalidPlanError:
        return "", 0, node_index
    return plan.uid, plan.attempt, node_index


if __name__ == "__main__":
    sys.exit(main())
