import sys
from collections.abc import Callable, Iterator

import click

from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.doctor import capacity, check, installation
from disttest_cli.doctor.check import Check, CheckedNamespace, CheckState, problem, unknown
from disttest_cli.errors import ExitStatus
from disttest_cli.formats import documents
from disttest_cli.kube import error_advice
from disttest_cli.views import terminal
from disttest_contract.outcomes import ExitCode
from disttest_operator.config.flags import DEFAULT_LEASE_NAMESPACE
from disttest_operator.core.api.api_errors import (
    ApiServerError,
    ForbiddenError,
    ResponseLostError,
    ServerBusyError,
    ServerUnreachableError,
)
from disttest_operator.core.api.model import Defaults

# (name, required permission, check)
CHECKS: tuple[tuple[str, str, Callable[[CheckedNamespace], list[Check]]], ...] = (
    (installation.KINDS, "list API resources", installation.kinds),
    (installation.RIGHTS, "create SelfSubjectAccessReviews", installation.rights),
    (installation.LEASE, "get Leases of the operator's namespace", installation.lease),
    (installation.OPERATOR, "get Deployments of the operator's namespace", installation.deployment),
    (capacity.NAMESPACE, "get the namespace", capacity.namespace),
    (capacity.QUOTA, "list ResourceQuotas", capacity.quota),
    (capacity.RANGES, "list LimitRanges", capacity.limit_ranges),
    (capacity.NODES, "list nodes", capacity.nodes),
    (capacity.KUEUE, "list LocalQueues", capacity.kueue),
    (capacity.PROMETHEUS, "list API resources", capacity.prometheus),
)


@click.command("doctor")
@options.output("json", "yaml")
@click.option(
    "--operator-namespace",
    default=DEFAULT_LEASE_NAMESPACE,
    show_default=True,
    metavar="NAMESPACE",
    help="Namespace of the operator and its Lease.",
)
@click.option(
    "--gpu-resource",
    default=Defaults(image="").gpu_resource,
    show_default=True,
    metavar="NAME",
    help="Resource name of GPUs.",
)
@options.on_cluster
def command(*, output: str | None, operator_namespace: str, gpu_resource: str, cluster: ClusterOptions) -> int:
    """Check whether a cluster and a namespace are ready for DistTests; for each problem, show how to fix it.

    The checks read the API server, CRDs, permissions, operator, Lease, namespace, quota, limits, nodes, Kueue and
    Prometheus. They change nothing. A check without permission is `not checked`.

    Exit codes: 0 no problem (maybe warnings), 30 problem found, 2 usage error or API server not reachable, 42 API
    server busy.
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
        checks = problem(installation.API_SERVER, str(error), error_advice.WHERE)
        code = ExitStatus.USAGE if isinstance(error, ServerUnreachableError) else ExitStatus.UNREACHABLE
    except ApiServerError as error:
        advice = (
            error_advice.of(error)
            if isinstance(error, ForbiddenError)
            else "check that the address is that of a Kubernetes API server"
        )
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
            yield from unknown(name, f"requires permission to {permission}")
        except (ServerBusyError, ResponseLostError):
            raise
        except ApiServerError as error:
            yield from unknown(name, f"the API server rejected the request: {error}")
