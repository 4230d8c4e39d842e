"""`disttest report`: the report of a run in several formats."""

import sys
from importlib import resources

import click

from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.errors import UsageError
from disttest_cli.formats import markdown
from disttest_cli.formats.subject import Subject
from disttest_cli.kube import stored
from disttest_cli.views import outputs, terminal
from disttest_cli.views.outputs import Output
from disttest_contract.text import escaping

EXAMPLES = """\b
Examples:
  disttest report nightly-2x8-x7k2p
  disttest report nightly-2x8-x7k2p -o junit=junit.xml -o html=report.html
  disttest report -f report.json -o markdown >> "$GITHUB_STEP_SUMMARY"
"""


@click.command("report", epilog=EXAMPLES)
@click.argument("name", required=False)
@click.option("-f", "--filename", metavar="FILE", help="A report in a file, .json or .json.gz, - for standard input.")
@click.option(
    "-o",
    "--output",
    "wanted",
    multiple=True,
    metavar=f"{'|'.join(outputs.FORMATS)}[=FILE]",
    help="Output format, and where it goes if not to standard output; repeatable. Default: text.",
)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of an attempt in place of the last one.")
@click.option(
    "--limit-bytes",
    type=click.IntRange(min=markdown.LEAST_BYTES),
    metavar="N",
    help=f"How large Markdown may be. Default: {markdown.DEFAULT_BYTES}, for a job summary of GitHub; a comment holds "
    "65536.",
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of reports, and nothing else.")
@options.on_cluster
def command(
    *,
    name: str | None,
    filename: str | None,
    wanted: tuple[str, ...],
    attempt: int | None,
    limit_bytes: int | None,
    schema: bool,
    cluster: ClusterOptions,
) -> int:
    """Show the report of a run, also of one that is gone if its series has kept it, or turn it into another format.

    Exit code: 0 whatever the verdict, if there is a report; 2 wrong command, or no report; 42 a busy API server.
    """
    if schema:
        print(resources.files("disttest_contract").joinpath("report.schema.json").read_text(encoding="utf-8"), end="")
        return 0
    chosen = outputs.parse(wanted, outputs.FORMATS, default=outputs.TEXT)
    limit = _limit(limit_bytes, chosen)
    if filename is not None:
        subject = _from_file(filename, name, attempt)
    elif name:
        subject = stored.find(cluster.server, cluster.namespace, name, attempt=attempt or 0)
    else:
        raise UsageError("name a run, or a report's file with -f; `disttest list` shows the runs")
    texts = [(output, outputs.render_report(subject, output.format, limit_bytes=limit)) for output in chosen]
    for output, text in texts:
        _deliver(output, text)
    if all(output.path for output in chosen):
        terminal.console().print("\n".join(escaping.line(f"{one.format}: {one.path}") for one in chosen))
    return 0


def _limit(limit_bytes: int | None, chosen: list[Output]) -> int:
    if limit_bytes and all(output.format != "markdown" for output in chosen):
        raise UsageError("--limit-bytes is for Markdown: add -o markdown, or leave --limit-bytes away")
    return limit_bytes or markdown.DEFAULT_BYTES


def _from_file(filename: str, name: str | None, attempt: int | None) -> Subject:
    if name:
        raise UsageError(f"both a run, {name!r}, and a file, {filename!r}, are named: leave one of them away")
    if attempt:
        raise UsageError("--attempt is for runs on a cluster: a file is the report of one attempt")
    return Subject(report=stored.read_file(filename))


def _deliver(output: Output, text: str) -> None:
    if output.path:
        outputs.write(output.path, text)
    elif output.format == outputs.TEXT and sys.stdout.isatty():
        console = terminal.console()
        for line in text.splitlines():
            console.print(terminal.coloured(line))
    else:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
