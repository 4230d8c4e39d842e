import sys
from datetime import UTC, datetime

import click

from disttest_cli import fields
from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.formats import documents
from disttest_cli.kube import error_advice, runs, stored
from disttest_cli.kube.client import Body, KubeClient
from disttest_cli.views import description, description_tables, terminal
from disttest_cli.views.description import DescribedRun
from disttest_operator.core.api.resources import Kind


@click.command("describe")
@click.argument("name")
@options.output("json", "yaml", "name")
@options.on_cluster
def command(*, name: str, output: str | None, cluster: ClusterOptions) -> int:
    """Show verdict, reason, next steps, attempts, pods, suites, failures, bandwidth and events of the DistTest NAME.

    For an active run, show its progress, the running case and what it waits for. Objects without read permission are
    listed at the end.

    Exit codes: 0 for every verdict, 2 usage error, not found or no permission, 42 API server busy.
    """
    with error_advice.explaining():
        server = cluster.server
        body = runs.find(server, cluster.namespace, name)
        if output:
            sys.stdout.write(documents.one(body, output))
            return 0
        seen = collect(server, body, datetime.now(UTC))
    terminal.show([*description.summary(seen), *description_tables.all_of(seen)])
    return 0


def collect(server: KubeClient, body: Body, now: datetime) -> DescribedRun:
    pods, no_pods = runs.if_allowed(lambda: runs.pods(server, body))
    events, no_events = runs.if_allowed(lambda: _events(server, body))
    has_report = bool(fields.mapping(fields.status(body).get("report")))
    report, no_report = stored.find_if_any(server, body) if has_report else (None, "")
    notes = [f"{what}: {why}" for what, why in (("pods", no_pods), ("events", no_events), ("report", no_report)) if why]
    return DescribedRun(body=body, now=now, pods=pods, events=events, report=report, notes=notes)


def _events(server: KubeClient, body: Body) -> list[Body]:
    uid = fields.text(fields.metadata(body).get("uid"))
    return server.list(Kind.CORE_EVENT, fields.namespace(body), field_selector=f"involvedObject.uid={uid}")
