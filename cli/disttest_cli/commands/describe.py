"""`disttest describe NAME`: one run on one screen."""

import sys
from datetime import UTC, datetime

import click

from disttest_cli import fields
from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.errors import UsageError
from disttest_cli.formats import documents
from disttest_cli.kube import api_errors, runs, stored
from disttest_cli.kube.client import Body, Cluster
from disttest_cli.views import description, description_tables, terminal
from disttest_cli.views.description import DescribedRun
from disttest_contract.results.report import Report
from disttest_operator.core.api.resources import Kind


@click.command("describe")
@click.argument("name")
@options.output("json", "yaml", "name")
@options.on_cluster
def command(*, name: str, output: str | None, cluster: ClusterOptions) -> int:
    """Show what the DistTest NAME came to and why, where it ran, and what to do about it.

    Below that: attempts, pods, suites, the first failures, bandwidth beside its thresholds, the slowest cases, events,
    and commands to go on with. Of a run that goes on: how far it is, the case in flight, what it waits for. What the
    user may not see is left out, and said at the end. With -o the object as kubectl prints it.

    Exit code: 0, whatever the verdict; 2 wrong command, no such DistTest, or no rights; 42 a busy API server.
    """
    with api_errors.explaining():
        server = cluster.server
        body = runs.find(server, cluster.namespace, name)
        if output:
            sys.stdout.write(documents.one(body, output))
            return 0
        seen = collect(server, body, datetime.now(UTC))
    terminal.show([*description.summary(seen), *description_tables.all_of(seen)])
    return 0


def collect(server: Cluster, body: Body, now: datetime) -> DescribedRun:
    pods, no_pods = runs.if_allowed(lambda: runs.pods(server, body))
    events, no_events = runs.if_allowed(lambda: _events(server, body))
    report, no_report = _report(server, body)
    notes = [f"{what}: {why}" for what, why in (("pods", no_pods), ("events", no_events), ("report", no_report)) if why]
    return DescribedRun(body=body, now=now, pods=pods, events=events, report=report, notes=notes)


def _report(server: Cluster, body: Body) -> tuple[Report | None, str]:
    if not fields.mapping(fields.status(body).get("report")):
        return None, ""
    try:
        return stored.find(server, fields.text(fields.metadata(body).get("namespace")), fields.name(body)).report, ""
    except UsageError as error:
        return None, str(error)


def _events(server: Cluster, body: Body) -> list[Body]:
    metadata = fields.metadata(body)
    namespace, uid = fields.text(metadata.get("namespace")), fields.text(metadata.get("uid"))
    return server.list(Kind.CORE_EVENT, namespace, field_selector=f"involvedObject.uid={uid}")
