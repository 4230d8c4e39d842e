"""The only home of the Kubernetes client in the command line: where an API server is, and one request to it.

ClusterError
├── BusyError      nothing was done: not reached, or too busy; it may work later
│   └── UnreachableError
├── LostError      no answer, or one that leaves it open: it may have been done
└── RefusedError   it was not done, and would not be done later
    ├── ExistsError
    ├── ForbiddenError
    └── MissingError
"""

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.rest import RESTClientObject
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError
from yaml import YAMLError

from disttest_operator.core.model import Manifest

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_SECONDS = 10
READ_SECONDS = 30
BUSY = frozenset({429, 503})  # of the answers that speak of load, those that mean: nothing was done
UNWILLING = 500  # from here on the server could not do it, or does not know whether it did
BROKEN = (HTTPError, OSError)  # what reading an answer raises when the connection is gone


class ClusterError(Exception):
    """One line: what went wrong, in the API server's words where it said something."""


class BusyError(ClusterError):
    """The API server did not take the request, and may take it later."""


class UnreachableError(BusyError):
    """Nobody answers there, or nobody who can be trusted."""


class LostError(ClusterError):
    """The API server may have done what was asked."""


class RefusedError(ClusterError):
    """The API server will not do it."""


class ExistsError(RefusedError):
    """An object of this name is there."""


class ForbiddenError(RefusedError):
    """The user has no right to it, or is unknown."""


class MissingError(RefusedError):
    """Something is not there: the object, its namespace, or its kind, which a server that just started may not know."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class Connection:
    """An API server. `namespace` is the one that is meant where none is named."""

    def __init__(self, configuration: Any, namespace: str) -> None:
        self.namespace = namespace
        self._configuration = configuration
        self._pool = RESTClientObject(configuration).pool_manager

    @property
    def server(self) -> str:
        return str(self._configuration.host)

    def request(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        *,
        read_seconds: float | None = READ_SECONDS,
        stream: bool = False,
    ) -> Any:
        """The answer, of a status below 400; raises ClusterError for anything else. `read_seconds` is for each read."""
        try:
            # Ours to try again: only we know what may be sent twice.
            response = self._pool.request(
                method,
                self.server + path,
                body=None if body is None else json.dumps(body, default=str).encode(),
                headers={"Accept": "application/json", "Content-Type": "application/json", **self._credentials()},
                retries=False,
                preload_content=not stream,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
            )
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise UnreachableError(f"cannot reach the API server at {self.server}: {one_line(error)}") from error
        except SSLError as error:
            if isinstance(error.args[0], ssl.SSLCertVerificationError):
                raise UnreachableError(f"cannot trust the API server at {self.server}: {one_line(error)}") from error
            raise _lost(error) from error
        except (HTTPError, OSError) as error:
            raise _lost(error) from error
        if response.status >= 400:
            raise _error(response)
        return response

    def _credentials(self) -> dict[str, str]:
        """Asked for anew each time: tokens expire in mid-wait."""
        try:
            settings = self._configuration.auth_settings()
        except (config.ConfigException, OSError) as error:
            raise UnreachableError(f"no credentials for the API server at {self.server}: {one_line(error)}") from error
        return {entry["key"]: entry["value"] for entry in settings.values() if entry["in"] == "header"}


def connect(environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "") -> Connection:
    """As the ServiceAccount of the pod that we are in, unless a kubeconfig or context is named; else by kubeconfig."""
    configuration = client.Configuration()
    is_named = bool(kubeconfig or context or environ.get("KUBECONFIG"))
    try:
        if not is_named and (ACCOUNT / "token").exists():
            config.load_incluster_config(client_configuration=configuration)
            return Connection(configuration, (ACCOUNT / "namespace").read_text().strip())
        file = kubeconfig or environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
        config.load_kube_config(file, context or None, configuration, persist_config=False)
        return Connection(configuration, _namespace_of_context(file, context))
    except (config.ConfigException, OSError, YAMLError, ValueError, KeyError, TypeError) as error:
        raise RefusedError(f"no way to reach a cluster: {one_line(error)}; name a file with --kubeconfig") from error


def _namespace_of_context(file: str, name: str) -> str:
    contexts, current = config.list_kube_config_contexts(file)
    chosen = next((entry for entry in contexts if entry["name"] == name), current)
    return str(chosen["context"].get("namespace") or "default")


def _lost(error: Exception) -> LostError:
    return LostError(f"the API server's answer was lost ({type(error).__name__}: {one_line(error)})")


def _error(response: Any) -> ClusterError:
    """Codes and reasons of the API server, mapped."""
    answer = {}
    try:
        answer = json.loads(response.data)
        message = str(answer["message"])
    except (ValueError, KeyError, TypeError, HTTPError):
        message = f"the API server answered {response.status}"
    finally:
        response.close()
    message = " ".join(message.split())
    if response.status in BUSY:
        return BusyError(message)
    if response.status >= UNWILLING:
        return LostError(message)
    if response.status == 409 and answer.get("reason") == "AlreadyExists":
        return ExistsError(message)
    if response.status in (401, 403):
        return ForbiddenError(message)
    if response.status == 404:
        return MissingError(message, str((answer.get("details") or {}).get("name", "")))
    return RefusedError(message)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
