"""`disttest logs NAME`: logs of a run's pods, or what its report has if the pods are gone."""

from collections.abc import Iterable, Sequence

import click

from disttest_cli import fields
from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.errors import CommandError, UsageError, warn
from disttest_cli.kube import api_errors, pod_logs, runs, stored
from disttest_cli.kube.client import Body, Cluster
from disttest_cli.kube.pod_logs import LogOutput, line_filter, of_cases, of_report, of_status
from disttest_cli.kube.run_wait import WaitClock
from disttest_cli.views import log_choice
from disttest_cli.views.log_choice import LogPart
from disttest_contract.outcomes import Verdict
from disttest_contract.results.report import Report


@click.command("logs")
@click.argument("name")
@click.option("--rank", "ranks", type=click.IntRange(min=0), multiple=True, metavar="R", help="What rank R wrote.")
@click.option(
    "--node", "nodes", type=click.IntRange(min=0), multiple=True, metavar="I", help="The log of node index I, whole."
)
@click.option("--all", "all_nodes", is_flag=True, help="The logs of all nodes, one after the other.")
@click.option(
    "--failed", is_flag=True, help="Output of the ranks and nodes that failed, at most 8, each case under its heading."
)
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Of an earlier gang of the run; default: the newest."
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the pod ends; waits for one that has not begun.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines of each.")
@click.option(
    "--raw",
    is_flag=True,
    help="Also the lines for programs: progress, and the report in its frames; into a pipe or file as they are.",
)
@options.on_cluster
def command(
    *,
    name: str,
    ranks: tuple[int, ...],
    nodes: tuple[int, ...],
    all_nodes: bool,
    failed: bool,
    attempt: int | None,
    follow: bool,
    tail: int | None,
    raw: bool,
    cluster: ClusterOptions,
) -> int:
    """Print what the pods of the DistTest NAME wrote; without options the leader's log (node index 0).

    --rank and --node may be given several times. What a rank wrote has `[rank R]` in front; where several pods are
    printed every line has `[node I]` in front of that. Control characters are made visible, and what a CI system would
    obey is broken; with --raw lines go into a pipe or file as they are. Pods never start twice, so there is no
    --previous: an earlier gang is another --attempt. If the pods are gone, what the report has about these ranks is
    printed: messages and stacks.

    Exit code: 0; 2 wrong command, no such DistTest, no rights, or nothing is left of what was asked for; 42 a busy API
    server.
    """
    if sum((bool(ranks), bool(nodes), all_nodes, failed)) > 1:
        raise UsageError("--rank, --node, --all and --failed say each whose log is meant: choose one of them")
    if follow and (failed or all_nodes or len(ranks) + len(nodes) > 1):
        raise UsageError("--follow is for one pod: name it with --node or --rank")
    with api_errors.explaining():
        server = cluster.server
        body = runs.find(server, cluster.namespace, name)
        gang = (
            pod_logs.wait_for(server, body, attempt, WaitClock(), warn)
            if follow
            else pod_logs.find(server, body, attempt)
        )
        report = None if gang.pods and not failed else _report(server, body, gang.attempt)
        if failed:
            parts = log_choice.blamed(body, gang.attempt, gang.pods, report)
        else:
            every = [runs.node_index(pod) for pod in gang.pods]
            whole = log_choice.of_nodes(nodes or (every if all_nodes else (log_choice.LEADER,)))
            parts = log_choice.of_ranks(ranks, runs.ranks_per_node(body)) if ranks else whole
        _check(body, parts)
        if failed and not parts and _has_passed(body, gang.attempt):
            warn(f"{fields.name(body)} passed: no rank or node failed")
            return 0
        if failed and not parts:
            raise UsageError(f"{fields.name(body)} blames nobody: see `disttest describe {fields.name(body)}`")
        if not gang.pods:
            return _without_pods(body, gang.attempt, parts, report)
        if follow:
            pod_logs.follow(
                server,
                gang.pod(parts[0].node),
                line_filter(parts[0].rank, raw=raw),
                tail,
                WaitClock(),
                LogOutput(is_raw=raw),
            )
            return 0
        _print(server, gang, parts, tail=tail, raw=raw, headers=failed)
    return 0


def _has_passed(body: Body, attempt: int) -> bool:
    status = fields.status(body)
    return status.get("verdict") == Verdict.PASSED and status.get("attempt") == attempt


def _report(server: Cluster, body: Body, attempt: int) -> Report | None:
    namespace, name = fields.text(fields.metadata(body).get("namespace")), fields.name(body)
    try:
        return stored.find(server, namespace, name, attempt=attempt).report
    except CommandError:
        return None


def _check(body: Body, parts: Sequence[LogPart]) -> None:
    count, per_node = runs.nodes(body), runs.ranks_per_node(body)
    for part in parts:
        if part.node >= count and part.rank is not None:
            raise UsageError(
                f"rank {part.rank}: the run has {count * per_node} ranks, from 0 to {count * per_node - 1}"
            )
        if part.node >= count:
            raise UsageError(f"node index {part.node}: the run has {count} nodes, from 0 to {count - 1}")


def _print(
    server: Cluster, gang: pod_logs.PodGang, parts: Sequence[LogPart], *, tail: int | None, raw: bool, headers: bool
) -> None:
    output, logs = LogOutput(is_raw=raw), pod_logs.PodLogs(server)
    shown = parts[: log_choice.MOST_BLAMED] if headers else parts
    is_several = len({part.node for part in shown}) > 1
    for part in shown:
        pod = gang.pod(part.node)
        if headers:
            output.text(log_choice.header(part, pod))
        for line in _lines(logs, pod, part, tail=tail, raw=raw):
            output.line(line, f"[node {part.node}] " if is_several else "")
    if parts[len(shown) :]:
        rest = ", ".join(f"--rank {part.rank}" for part in parts[len(shown) : 2 * len(shown)] if part.rank is not None)
        warn(f"and {len(parts) - len(shown)} more are blamed: {rest} …")


def _lines(logs: pod_logs.PodLogs, pod: Body, part: LogPart, *, tail: int | None, raw: bool) -> Iterable[bytes]:
    keep = line_filter(part.rank, raw=raw)
    if part.rank is None or not part.headings:
        return logs.lines(pod, keep, tail)
    found = of_cases(logs.lines(pod, keep, None), part.rank, part.headings)
    return found if tail is None else found[-tail:]


def _without_pods(body: Body, attempt: int, parts: Sequence[LogPart], report: Report | None) -> int:
    name = fields.name(body)
    ranks = [part.rank for part in parts if part.rank is not None]
    status = fields.status(body)
    lines = list(of_report(report, ranks) if report else of_status(status) if status.get("verdict") else ())
    if not status.get("verdict") and not lines:
        message = (
            fields.text(status.get("message")) or fields.text(status.get("phase")) or "nobody has looked at it yet"
        )
        raise UsageError(f"{name} has no pods yet ({message}); wait for them with --follow")
    if not lines:
        raise UsageError(
            f"the pods of attempt {attempt} of {name} are gone, and its report has nothing about these ranks"
        )
    source = "its report" if report else "its status"
    warn(f"the pods of attempt {attempt} of {name} are gone, and their logs with them; this is what {source} has")
    output = LogOutput()
    for line in lines:
        output.text(line)
    return 0
