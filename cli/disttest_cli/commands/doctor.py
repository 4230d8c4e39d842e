"""`disttest doctor`: is this cluster ready for DistTests, and what is missing."""

import sys
from collections.abc import Callable, Iterator

import click

from disttest_cli.commands import options
from disttest_cli.doctor import check, installation, place
from disttest_cli.doctor.check import Check, CheckedNamespace, CheckState, problem, unknown
from disttest_cli.errors import ExitStatus
from disttest_cli.kube import connect
from disttest_cli.kube.client import BusyError, ClusterError, ForbiddenError, LostError, UnreachableError
from disttest_cli.views import printing, terminal
from disttest_contract.outcomes import ExitCode
from disttest_operator.config.flags import DEFAULT_LEASE_NAMESPACE
from disttest_operator.core.api.model import Defaults

# (name, what it needs the right to, how it looks)
CHECKS: tuple[tuple[str, str, Callable[[CheckedNamespace], list[Check]]], ...] = (
    (installation.KINDS, "see which kinds there are", installation.kinds),
    (installation.RIGHTS, "create SelfSubjectAccessReviews", installation.rights),
    (installation.LEASE, "get Leases of the operator's namespace", installation.lease),
    (installation.OPERATOR, "get Deployments of the operator's namespace", installation.deployment),
    (place.NAMESPACE, "get the namespace", place.namespace),
    (place.QUOTA, "list ResourceQuotas", place.quota),
    (place.RANGES, "list LimitRanges", place.limit_ranges),
    (place.NODES, "list nodes", place.nodes),
    (place.KUEUE, "list LocalQueues", place.kueue),
    (place.PROMETHEUS, "see which kinds there are", place.prometheus),
)


@click.command("doctor")
@options.output("json", "yaml")
@click.option(
    "--operator-namespace",
    default=DEFAULT_LEASE_NAMESPACE,
    show_default=True,
    metavar="NAMESPACE",
    help="Where the operator and its Lease are.",
)
@click.option(
    "--gpu-resource",
    default=Defaults(image="").gpu_resource,
    show_default=True,
    metavar="NAME",
    help="What nodes call GPUs.",
)
@options.on_cluster
def command(
    *, output: str | None, operator_namespace: str, gpu_resource: str, namespace: str, context: str, kubeconfig: str
) -> int:
    """Check whether a cluster, and a namespace of it, is ready for DistTests; each check says what to do.

    Looked at are the API server, the kinds and their fields, what the user may do, the operator and its Lease, the
    namespace with its quota and limits, nodes and their GPUs, Kueue and Prometheus. What the user has no right to
    see is `not checked`, which is no problem. Nothing is changed.

    Exit code: 0 no problem (warnings are none), 30 a problem was found, 2 wrong command, or no API server answers
    there; 42 a busy one.
    """
    server = connect.connect(kubeconfig=kubeconfig, context=context)
    looked = CheckedNamespace(
        server=server,
        namespace=namespace or server.namespace,
        operator_namespace=operator_namespace,
        gpu_resource=gpu_resource,
    )
    try:
        checks = [*installation.api_server(looked), *inspect(looked)]
        code: int = ExitCode.CONFIGURATION if check.count(checks, CheckState.PROBLEM) else 0
    except (BusyError, LostError) as error:
        checks = problem(installation.API_SERVER, str(error), connect.WHERE)
        code = ExitStatus.USAGE if isinstance(error, UnreachableError) else ExitStatus.UNREACHABLE
    except ClusterError as error:
        advice = connect.advice(error) if isinstance(error, ForbiddenError) else "is this a Kubernetes API server?"
        checks = problem(installation.API_SERVER, str(error), advice)
        code = ExitCode.CONFIGURATION
    if output:
        sys.stdout.write(printing.document(check.document(checks), output))
    else:
        terminal.show(check.lines(checks))
    return code


def inspect(looked: CheckedNamespace) -> Iterator[Check]:
    """A check that cannot be made keeps no other from being made; an API server that has gone ends them all."""
    for name, right, look in CHECKS:
        try:
            yield from look(looked)
        except ForbiddenError:
            yield from unknown(name, f"needs the right to {right}")
        except (BusyError, LostError):
            raise
        except ClusterError as error:
            yield from unknown(name, f"the API server refused to say: {error}")
