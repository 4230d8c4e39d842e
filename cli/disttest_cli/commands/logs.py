import functools
from collections.abc import Iterable, Sequence

import click

from disttest_cli import fields
from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.errors import UsageError, warn
from disttest_cli.kube import error_advice, pod_logs, runs, stored
from disttest_cli.kube.client import Body, KubeClient
from disttest_cli.kube.pod_logs import LogOutput, line_filter, of_cases, of_report, of_status
from disttest_cli.kube.run_wait import WaitClock
from disttest_cli.views import log_choice
from disttest_cli.views.log_choice import LogPart
from disttest_contract.outcomes import Verdict
from disttest_contract.results.report import Report
from disttest_contract.text import formatting


@click.command("logs")
@click.argument("name")
@click.option(
    "--rank", "ranks", type=click.IntRange(min=0), multiple=True, metavar="R", help="Output of rank R. Repeatable."
)
@click.option(
    "--node", "nodes", type=click.IntRange(min=0), multiple=True, metavar="I", help="Log of node index I. Repeatable."
)
@click.option("--all", "all_nodes", is_flag=True, help="Logs of all nodes, one after the other.")
@click.option("--failed", is_flag=True, help="Output of up to 8 failed ranks and nodes, by case.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Number of the attempt. Default: the newest.")
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the pod ends; wait for the pod to start.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines of each log.")
@click.option(
    "--raw",
    is_flag=True,
    help="Include the lines for programs (progress and report), and do not escape what goes to a pipe or file.",
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
    """Print logs of the pods of the DistTest NAME. Default: the log of the leader (node index 0).

    Output of a rank has the prefix `[rank R]`, and with several pods `[node I]`. If the pods no
    longer exist, messages and stacks from the report are printed.

    Exit codes: 0, 2 usage error, no such DistTest or log, or no permission, 42 API server busy.
    """
    if sum((bool(ranks), bool(nodes), all_nodes, failed)) > 1:
        raise UsageError("--rank, --node, --all and --failed exclude each other. Use one of them.")
    if follow and (failed or all_nodes or len(ranks) + len(nodes) > 1):
        raise UsageError("--follow reads one pod. Name it with --node or --rank.")
    with error_advice.explaining():
        server = cluster.server
        body = runs.find(server, cluster.namespace, name)
        if follow:
            gang = pod_logs.wait_for(server, body, attempt, WaitClock(), warn)
        else:
            gang = pod_logs.find(server, body, attempt)
        report, no_report = None, ""
        if failed or not gang.pods:
            report, no_report = stored.find_if_any(server, body, gang.attempt)
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
            run = fields.name(body)
            raise UsageError(f"{run} names no failed rank or node. For details, run `disttest describe {run}`.")
        if not gang.pods:
            return _without_pods(body, gang.attempt, parts, report, no_report)
        if follow:
            keep = line_filter(parts[0].rank, raw=raw)
            pod_logs.follow(server, gang.pod(parts[0].node), keep, tail, WaitClock(), LogOutput(is_raw=raw))
            return 0
        _print(server, gang, parts, tail=tail, raw=raw, headers=failed)
    return 0


def _has_passed(body: Body, attempt: int) -> bool:
    status = fields.status(body)
    return status.get("verdict") == Verdict.PASSED and status.get("attempt") == attempt


def _check(body: Body, parts: Sequence[LogPart]) -> None:
    count, per_node = runs.nodes(body), runs.ranks_per_node(body)
    for part in parts:
        if part.node >= count and part.rank is not None:
            raise UsageError(f"rank {part.rank} does not exist: the run has {_numbered(count * per_node, 'rank')}")
        if part.node >= count:
            raise UsageError(f"node index {part.node} does not exist: the run has {_numbered(count, 'node')}")


def _numbered(count: int, noun: str) -> str:
    return f"{formatting.counted(count, noun)}, 0 to {count - 1}" if count > 1 else f"one {noun}, 0"


def _print(
    server: KubeClient, gang: pod_logs.PodGang, parts: Sequence[LogPart], *, tail: int | None, raw: bool, headers: bool
) -> None:
    output = LogOutput(is_raw=raw)
    namespace = fields.namespace(gang.pods[0])
    read = functools.cache(lambda pod: list(server.log(namespace, pod, pod_logs.OPTIONS)))  # once for all ranks
    shown = parts[: log_choice.MOST_BLAMED] if headers else parts
    is_several = len({part.node for part in shown}) > 1
    for part in shown:
        pod = gang.pod(part.node)
        if headers:
            output.text(log_choice.header(part, pod))
        for line in _lines(read(fields.name(pod)), part, tail=tail, raw=raw):
            output.line(line, f"[node {part.node}] " if is_several else "")
    if parts[len(shown) :]:
        rest = ", ".join(f"--rank {part.rank}" for part in parts[len(shown) : 2 * len(shown)] if part.rank is not None)
        warn(f"{len(parts) - len(shown)} more failed; to show them, use {rest} …")


def _lines(log: Iterable[bytes], part: LogPart, *, tail: int | None, raw: bool) -> Iterable[bytes]:
    keep = line_filter(part.rank, raw=raw)
    if part.rank is None or not part.headings:
        return pod_logs.filtered(log, keep, tail)
    found = of_cases(pod_logs.filtered(log, keep, None), part.rank, part.headings)
    return found if tail is None else found[-tail:]


def _without_pods(body: Body, attempt: int, parts: Sequence[LogPart], report: Report | None, no_report: str) -> int:
    name = fields.name(body)
    ranks = [part.rank for part in parts if part.rank is not None]
    status = fields.status(body)
    has_failures = status.get("verdict") and fields.count(status.get("attempt")) in (0, attempt)
    lines = list(of_report(report, ranks) if report else of_status(status) if has_failures else ())
    if not status.get("verdict") and not lines:
        message = (
            fields.text(status.get("message")) or fields.text(status.get("phase")) or "no operator has processed it"
        )
        raise UsageError(f"{name} has no pods yet ({message}). To wait for them, use --follow.")
    lost = f"the pods of attempt {attempt} of {name} and their logs no longer exist"
    if not lines:
        raise UsageError(f"{lost}: {no_report or 'its report has no data about these ranks'}")
    warn(f"{lost}; this is from {'its report' if report else 'its status'}")
    output = LogOutput()
    for line in lines:
        output.text(line)
    return 0
