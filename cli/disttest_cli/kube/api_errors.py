"""What can go wrong between a command and an API server, and what the user is asked to do about it.

ApiServerError
├── ServerBusyError       nothing was done: not reached, or too busy; it may work later
│   └── ServerUnreachableError
├── ResponseLostError     no response, or one that leaves it open: it may have been done
└── RequestRefusedError   it was not done, and would not be done later
    ├── AlreadyExistsError
    ├── ForbiddenError
    └── NotFoundError
"""

from collections.abc import Iterator
from contextlib import contextmanager

from disttest_cli.errors import CommandError, ExitStatus, UsageError
from disttest_operator.core.api.model import GROUP

UNKNOWN_KIND = "could not find the requested resource"
WHERE = "is the cluster up, and is it the one that is meant? See --context and --kubeconfig"
INSTALL = "DistTests are not installed there: kubectl apply -k manifests/base"


class ApiServerError(Exception):
    """One line: what went wrong, in the API server's words if it sent a message."""


class ServerBusyError(ApiServerError):
    """The API server did not take the request, and may take it later."""


class ServerUnreachableError(ServerBusyError):
    """No server answers at the address, or its certificate cannot be trusted."""


class ResponseLostError(ApiServerError):
    """The API server may have done what was requested."""


class RequestRefusedError(ApiServerError):
    """The API server will not do it."""


class AlreadyExistsError(RequestRefusedError):
    """An object of this name exists."""


class ForbiddenError(RequestRefusedError):
    """The user has no permission, or is unknown."""


class NotFoundError(RequestRefusedError):
    """The object, its namespace or its kind does not exist; a server that just started may not know the kind yet."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def advice(error: RequestRefusedError) -> str:
    """Which role to ask for; a user that is not known to the server needs to log in instead."""
    if GROUP in str(error):
        return "ask an administrator for the ClusterRole disttest-view or disttest-edit"
    if "forbidden" in str(error):
        return (
            "ask an administrator for the ClusterRole view or edit, which have disttest-view and disttest-edit in them"
        )
    return "log in again, or name another user with --kubeconfig or --context"


@contextmanager
def explaining() -> Iterator[None]:
    """Turn errors of the API server into the message and exit code of a command."""
    try:
        yield
    except ServerUnreachableError as error:
        raise UsageError(f"{error}; {WHERE}") from error
    except (ServerBusyError, ResponseLostError) as error:
        raise CommandError(str(error), ExitStatus.UNREACHABLE) from error
    except ForbiddenError as error:
        raise UsageError(f"{error}; {advice(error)}") from error
    except NotFoundError as error:
        hint = f"; {INSTALL}" if UNKNOWN_KIND in str(error) or "answered 404" in str(error) else ""
        raise UsageError(f"{error}{hint}") from error
    except ApiServerError as error:
        raise UsageError(str(error)) from error
