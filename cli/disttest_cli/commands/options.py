"""Options that commands share, with kubectl's names and meanings."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

SECONDS = click.IntRange(min=1)


def on_cluster(command: Function) -> Function:
    """-n, --context and --kubeconfig: arguments `namespace`, `context`, `kubeconfig`, empty where not given."""
    for option in (
        click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config."),
        click.option("--context", default="", metavar="CONTEXT", help="Of the kubeconfig; default: the current one."),
        click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Default: that of the context."),
    ):
        command = option(command)
    return command


def output(*formats: str, default: str = "") -> Callable[[Function], Function]:
    """-o: argument `output`; None when it is not given and there is no default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=default or None,
        show_default=bool(default),
        metavar="|".join(formats),
        help="Output format.",
    )


def filename(help_text: str) -> Callable[[Function], Function]:
    return click.option("-f", "--filename", required=True, metavar="FILE", help=help_text)
