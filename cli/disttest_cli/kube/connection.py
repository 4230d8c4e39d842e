"""The only home of urllib3 in the command line: one request to an API server, and what its answer means.

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
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from disttest_cli import lazy
from disttest_cli.kube import kubeconfig as kubeconfigs
from disttest_cli.kube.credentials import Credential, CredentialsError
from disttest_cli.kube.kubeconfig import ApiServer, InvalidKubeconfigError
from disttest_operator.core.api.model import Manifest

if TYPE_CHECKING:
    import urllib3
else:
    urllib3 = lazy.module("urllib3")

CONNECT_SECONDS = 10
READ_SECONDS = 30
BUSY = frozenset({429, 503})  # of the answers that speak of load, those that mean: nothing was done
UNWILLING = 500  # from here on the server could not do it, or does not know whether it did


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
    """An API server."""

    def __init__(self, target: ApiServer) -> None:
        self._target = target
        self._shown = target.credential()
        self._pool = _pool(target, self._shown)

    @property
    def namespace(self) -> str:
        """The one that is meant where none is named."""
        return self._target.namespace

    @property
    def server(self) -> str:
        return self._target.server

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
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise UnreachableError(f"cannot reach the API server at {self.server}: {one_line(error)}") from error
        except urllib3.exceptions.SSLError as error:
            if isinstance(error.args[0], ssl.SSLCertVerificationError):
                raise UnreachableError(f"cannot trust the API server at {self.server}: {one_line(error)}") from error
            raise _lost(error) from error
        except broken() as error:
            raise _lost(error) from error
        if response.status >= 400:
            raise _error(response)
        return response

    def _credentials(self) -> dict[str, str]:
        """Asked for each time: tokens and certificates expire in mid-wait."""
        try:
            credential = self._target.credential()
            if (credential.certificate, credential.key) != (self._shown.certificate, self._shown.key):
                self._pool = _pool(self._target, credential)
        except (CredentialsError, OSError) as error:
            raise UnreachableError(f"no credentials for the API server at {self.server}: {one_line(error)}") from error
        self._shown = credential
        return {"Authorization": credential.authorization} if credential.authorization else {}


def connect(environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "") -> Connection:
    """As the ServiceAccount of the pod that we are in, unless a kubeconfig or context is named; else by kubeconfig."""
    try:
        return Connection(kubeconfigs.load(environ, kubeconfig=kubeconfig, context=context))
    except InvalidKubeconfigError as error:
        raise RefusedError(one_line(error)) from error
    except (CredentialsError, OSError) as error:  # OSError: a certificate that OpenSSL does not take
        raise RefusedError(f"no credentials for the API server: {one_line(error)}; {kubeconfigs.HOW}") from error


def _pool(target: ApiServer, credential: Credential) -> "urllib3.PoolManager":
    context = urllib3.util.create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if target.is_verified else ssl.CERT_NONE)
    if not target.is_verified:  # as the kubeconfig says: a warning for each request would be noise
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if target.authority:
        context.load_verify_locations(cadata=target.authority)
    else:
        context.load_default_certs()
    credential.load_into(context)
    settings: dict[str, Any] = {"ssl_context": context}
    if target.server_name:
        settings["server_hostname"] = target.server_name
    if not target.proxy:
        return urllib3.PoolManager(**settings)
    if target.proxy.startswith("socks"):
        return _socks_pool(target.proxy, settings)
    user = urllib3.util.parse_url(target.proxy).auth
    headers = urllib3.util.make_headers(proxy_basic_auth=unquote(user)) if user else None
    return urllib3.ProxyManager(target.proxy, proxy_headers=headers, **settings)


def _socks_pool(proxy: str, settings: dict[str, Any]) -> "urllib3.PoolManager":
    if find_spec("socks") is None:
        raise InvalidKubeconfigError(f"the proxy {proxy} needs the Python package PySocks, which is not here")
    from urllib3.contrib.socks import SOCKSProxyManager  # noqa: PLC0415  # warns where PySocks is absent

    return SOCKSProxyManager(proxy, **settings)


def _lost(error: Exception) -> LostError:
    return LostError(f"the API server's answer was lost ({type(error).__name__}: {one_line(error)})")


def _error(response: Any) -> ClusterError:
    """Codes and reasons of the API server, mapped."""
    answer = {}
    try:
        answer = json.loads(response.data)
        message = str(answer["message"])
    except (ValueError, KeyError, TypeError, urllib3.exceptions.HTTPError):
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


def broken() -> tuple[type[Exception], ...]:
    """What reading an answer raises when the connection is gone."""
    return (urllib3.exceptions.HTTPError, OSError)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
