"""The next step after an error of the API server."""

from collections.abc import Iterator
from contextlib import contextmanager

from disttest_cli.errors import CommandError, ExitStatus, UsageError
from disttest_operator.core.api.api_errors import (
    ApiServerError,
    ForbiddenError,
    NotFoundError,
    RequestRefusedError,
    ResponseLostError,
    ServerBusyError,
    ServerUnreachableError,
)
from disttest_operator.core.api.model import GROUP

WHERE = "Check that the cluster is running, and check --context and --kubeconfig."
INSTALLING = "docs/operating/installing.md"
INSTALL = f"DistTests are not installed in this cluster. To install them, see {INSTALLING}."


def of(error: RequestRefusedError) -> str:
    """The role that the user needs; a user without a valid login must log in instead."""
    if GROUP in str(error):
        return "Ask an administrator for the ClusterRole disttest-view or disttest-edit."
    if "forbidden" in str(error):
        return "Ask an administrator for the ClusterRole view or edit, which include disttest-view and disttest-edit."
    return "Log in again, or use another user with --kubeconfig or --context."


@contextmanager
def explaining() -> Iterator[None]:
    """Turn errors of the API server into the message and exit code of a command."""
    try:
        yield
    except ServerUnreachableError as error:
        raise UsageError(f"{error}. {WHERE}") from error
    except (ServerBusyError, ResponseLostError) as error:
        raise CommandError(str(error), ExitStatus.UNREACHABLE) from error
    except ForbiddenError as error:
        raise UsageError(f"{error}. {of(error)}") from error
    except NotFoundError as error:
        raise UsageError(str(error) if error.name else f"{error}. {INSTALL}") from error
    except ApiServerError as error:
        raise UsageError(str(error)) from error
