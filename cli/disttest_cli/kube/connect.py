"""The way of every command to a cluster: what goes wrong there is said in one line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from disttest_cli.errors import CommandError, ExitStatus, UsageError
from disttest_cli.kube import client
from disttest_cli.kube.client import (
    BusyError,
    Cluster,
    ClusterError,
    ForbiddenError,
    LostError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from disttest_operator.core.api.model import GROUP

UNKNOWN_KIND = "could not find the requested resource"
WHERE = "is the cluster up, and is it the one that is meant? See --context and --kubeconfig"
INSTALL = "DistTests are not installed there: kubectl apply -k manifests/base"


def connect(*, kubeconfig: str, context: str) -> Cluster:
    try:
        return client.connect(os.environ, kubeconfig=kubeconfig, context=context)
    except ClusterError as error:
        raise UsageError(str(error)) from error


def advice(error: RefusedError) -> str:
    """Whom to ask for what. Who is not known at all needs no role."""
    if GROUP in str(error):
        return "ask an administrator for the ClusterRole disttest-view or disttest-edit"
    if "forbidden" in str(error):
        return (
            "ask an administrator for the ClusterRole view or edit, which have disttest-view and disttest-edit in them"
        )
    return "log in again, or name another user with --kubeconfig or --context"


@contextmanager
def explaining() -> Iterator[None]:
    """Around what is asked for once: a refusal says what to do, the exit code of a busy server says try again."""
    try:
        yield
    except UnreachableError as error:
        raise UsageError(f"{error}; {WHERE}") from error
    except (BusyError, LostError) as error:
        raise CommandError(str(error), ExitStatus.UNREACHABLE) from error
    except ForbiddenError as error:
        raise UsageError(f"{error}; {advice(error)}") from error
    except MissingError as error:
        hint = f"; {INSTALL}" if UNKNOWN_KIND in str(error) or "answered 404" in str(error) else ""
        raise UsageError(f"{error}{hint}") from error
    except ClusterError as error:
        raise UsageError(str(error)) from error
