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
@click.option("-f", "--filename", metavar="FILE", help="Report file, .json or .json.gz; - is standard input.")
@click.option(
    "-o",
    "--output",
    "wanted",
    multiple=True,
    metavar=f"{'|'.join(outputs.FORMATS)}[=FILE]",
    help="Output format and file; without FILE, standard output. Repeatable. Default: text.",
)
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Number of the attempt. Default: the last one."
)
@click.option(
    "--limit-bytes",
    type=click.IntRange(min=markdown.LEAST_BYTES),
    metavar="N",
    help=f"Maximum size of Markdown in bytes. Default: {markdown.DEFAULT_BYTES}, which fits a GitHub job summary; a "
    "comment holds 65536.",
)
@click.option("--schema", is_flag=True, help="Print only the JSON Schema of reports.")
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
    """Show the report of a run, or convert it to other formats.

    Reports of deleted runs are available while their series retains them.

    Exit codes: 0 for every verdict, 2 usage error or no report, 42 API server busy.
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
        raise UsageError("neither a run nor a file is given. Name a run (`disttest list` shows them), or use -f FILE.")
    texts = [(output, outputs.render_report(subject, output.format, limit_bytes=limit)) for output in chosen]
    for output, text in texts:
        _deliver(output, text)
    if all(output.path for output in chosen):
        terminal.console().print("\n".join(escaping.line(f"{one.format}: {one.path}") for one in chosen))
    return 0


def _limit(limit_bytes: int | None, chosen: list[Output]) -> int:
    if limit_bytes and all(output.format != "markdown" for output in chosen):
        raise UsageError("--limit-bytes requires -o markdown. Add -o markdown, or remove --limit-bytes.")
    return limit_bytes or markdown.DEFAULT_BYTES


def _from_file(filename: str, name: str | None, attempt: int | None) -> Subject:
    if name:
        raise UsageError(f"both a run ({name!r}) and a file ({filename!r}) are given. Remove one of them.")
    if attempt:
        raise UsageError("--attempt requires a run on a cluster: a file contains one attempt")
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
