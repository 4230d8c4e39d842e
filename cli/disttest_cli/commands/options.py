"""Options that several commands share, named like kubectl's."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from disttest_cli.errors import UsageError
from disttest_operator.core.api.api_errors import ApiServerError

if TYPE_CHECKING:
    from disttest_cli.kube.client import KubeClient

Function = TypeVar("Function", bound=Callable[..., Any])

SECONDS = click.IntRange(min=1)


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The values of -n, --context and --kubeconfig, empty if unset, and the cluster that they select."""

    given_namespace: str
    context: str
    kubeconfig: str

    @functools.cached_property
    def server(self) -> "KubeClient":
        """Connects on first use. Raises UsageError."""
        from disttest_cli.kube import client  # noqa: PLC0415  # files are read without a Kubernetes client

        try:
            return client.connect(os.environ, kubeconfig=self.kubeconfig, context=self.context)
        except ApiServerError as error:
            raise UsageError(str(error)) from error

    @property
    def namespace(self) -> str:
        return self.given_namespace or self.server.namespace


def on_cluster(command: Callable[..., int]) -> Callable[..., int]:
    """-n, --context and --kubeconfig as argument `cluster`, a ClusterOptions."""

    @functools.wraps(command)
    def wrapped(*, namespace: str, context: str, kubeconfig: str, **others: Any) -> int:
        return command(
            cluster=ClusterOptions(given_namespace=namespace, context=context, kubeconfig=kubeconfig), **others
        )

    for option in (
        click.option(
            "--kubeconfig", default="", metavar="FILE", help="Kubeconfig. Default: $KUBECONFIG or ~/.kube/config."
        ),
        click.option(
            "--context", default="", metavar="CONTEXT", help="Context of the kubeconfig. Default: the current one."
        ),
        click.option(
            "-n", "--namespace", default="", metavar="NAMESPACE", help="Namespace. Default: that of the context."
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def output(*formats: str, default: str = "") -> Callable[[Function], Function]:
    """-o as argument `output`; None if unset without a default."""
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
