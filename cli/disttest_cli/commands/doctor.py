"""`disttest doctor`: check whether a cluster is ready for DistTests."""

import sys
from collections.abc import Callable, Iterator

import click

from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.doctor import capacity, check, installation
from disttest_cli.doctor.check import Check, CheckedNamespace, CheckState, problem, unknown
from disttest_cli.errors import ExitStatus
from disttest_cli.formats import documents
from disttest_cli.kube import api_errors
from disttest_cli.kube.api_errors import (
    ApiServerError,
    ForbiddenError,
    ResponseLostError,
    ServerBusyError,
    ServerUnreachableError,
)
from disttest_cli.views import terminal
from disttest_contract.outcomes import ExitCode
from disttest_operator.config.flags import DEFAULT_LEASE_NAMESPACE
from disttest_operator.core.api.model import Defaults

# (name, required permission, check)
CHECKS: tuple[tuple[str, str, Callable[[CheckedNamespace], list[Check]]], ...] = (
    (installation.KINDS, "see which kinds there are", installation.kinds),
    (installation.RIGHTS, "create SelfSubjectAccessReviews", installation.rights),
    (installation.LEASE, "get Leases of the operator's namespace", installation.lease),
    (installation.OPERATOR, "get Deployments of the operator's namespace", installation.deployment),
    (capacity.NAMESPACE, "get the namespace", capacity.namespace),
    (capacity.QUOTA, "list ResourceQuotas", capacity.quota),
    (capacity.RANGES, "list LimitRanges", capacity.limit_ranges),
    (capacity.NODES, "list nodes", capacity.nodes),
    (capacity.KUEUE, "list LocalQueues", capacity.kueue),
    (capacity.PROMETHEUS, "see which kinds there are", capacity.prometheus),
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
def command(*, output: str | None, operator_namespace: str, gpu_resource: str, cluster: ClusterOptions) -> int:
    """Check whether a cluster, and a namespace of it, is ready for DistTests; each check says what to do.

    Looked at are the API server, the kinds and their fields, what the user may do, the operator and its Lease, the
    namespace with its quota and limits, nodes and their GPUs, Kueue and Prometheus. What the user has no right to
    see is `not checked`, which is no problem. Nothing is changed.

    Exit code: 0 no problem (warnings are none), 30 a problem was found, 2 wrong command, or no API server answers
    there; 42 a busy one.
    """
    checked = CheckedNamespace(
        server=cluster.server,
        namespace=cluster.namespace,
        operator_namespace=operator_namespace,
        gpu_resource=gpu_resource,
    )
    try:
        checks = [*installation.api_server(checked), *inspect(checked)]
        code: int = ExitCode.CONFIGURATION if check.count(checks, CheckState.PROBLEM) else 0
    except (ServerBusyError, ResponseLostError) as error:
        checks = problem(installation.API_SERVER, str(error), api_errors.WHERE)
        code = ExitStatus.USAGE if isinstance(error, ServerUnreachableError) else ExitStatus.UNREACHABLE
    except ApiServerError as error:
        advice = api_errors.advice(error) if isinstance(error, ForbiddenError) else "is this a Kubernetes API server?"
        checks = problem(installation.API_SERVER, str(error), advice)
        code = ExitCode.CONFIGURATION
    if output:
        sys.stdout.write(documents.document(check.document(checks), output))
    else:
        terminal.show(check.lines(checks))
    return code


def inspect(checked: CheckedNamespace) -> Iterator[Check]:
    """Run all checks. Raises ServerBusyError and ResponseLostError; other errors make one check unknown."""
    for name, permission, run in CHECKS:
        try:
            yield from run(checked)
        except ForbiddenError:
            yield from unknown(name, f"needs the right to {permission}")
        except (ServerBusyError, ResponseLostError):
            raise
        except ApiServerError as error:
            yield from unknown(name, f"the API server refused to say: {error}")
