"""The only home of urllib3 in the command line: one request to an API server, and what its response means."""

import json
import ssl
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from disttest_cli import lazy
from disttest_cli.kube.credentials import Credential, CredentialsError
from disttest_cli.kube.kubeconfig import ApiServer, InvalidKubeconfigError
from disttest_operator.core.api.api_errors import ApiServerError, ResponseLostError, ServerUnreachableError, error_of
from disttest_operator.core.api.model import Manifest

if TYPE_CHECKING:
    import urllib3
else:
    urllib3 = lazy.module("urllib3")

CONNECT_SECONDS = 10
READ_SECONDS = 30


class Connection:
    def __init__(self, target: ApiServer) -> None:
        self.target = target
        self._credential = target.credential()
        self._pool = _pool(target, self._credential)

    def request(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        *,
        read_seconds: float | None = READ_SECONDS,
        stream: bool = False,
    ) -> Any:
        """The response if its status is below 400. `read_seconds` limits each read. Raises ApiServerError."""
        server = self.target.server
        try:
            # No retries here: callers know which requests may be repeated.
            response = self._pool.request(
                method,
                server + path,
                body=None if body is None else json.dumps(body, default=str).encode(),
                headers={"Accept": "application/json", "Content-Type": "application/json", **self._credentials()},
                retries=False,
                preload_content=not stream,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise ServerUnreachableError(f"cannot reach the API server at {server}: {one_line(error)}") from error
        except urllib3.exceptions.SSLError as error:
            if isinstance(error.args[0], ssl.SSLCertVerificationError):
                raise ServerUnreachableError(f"cannot trust the API server at {server}: {one_line(error)}") from error
            raise _lost(error) from error
        except broken() as error:
            raise _lost(error) from error
        if response.status >= 400:
            raise _error(response)
        return response

    def _credentials(self) -> dict[str, str]:
        """Read for each request, since tokens and certificates expire while a command waits."""
        try:
            credential = self.target.credential()
            if (credential.certificate, credential.key) != (self._credential.certificate, self._credential.key):
                self._pool = _pool(self.target, credential)
        except (CredentialsError, OSError) as error:
            raise ServerUnreachableError(
                f"no credentials for the API server at {self.target.server}: {one_line(error)}"
            ) from error
        self._credential = credential
        return {"Authorization": credential.authorization} if credential.authorization else {}


def _pool(target: ApiServer, credential: Credential) -> "urllib3.PoolManager":
    context = urllib3.util.create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if target.is_verified else ssl.CERT_NONE)
    if not target.is_verified:  # the kubeconfig disables verification; do not warn at each request
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
        raise InvalidKubeconfigError(f"proxy {proxy} needs the Python package PySocks, which is not installed")
    from urllib3.contrib.socks import SOCKSProxyManager  # noqa: PLC0415  # warns where PySocks is absent

    return SOCKSProxyManager(proxy, **settings)


def _lost(error: Exception) -> ResponseLostError:
    return ResponseLostError(f"the response of the API server was lost ({type(error).__name__}: {one_line(error)})")


def _error(response: Any) -> ApiServerError:
    try:
        raw: bytes = response.data
    except urllib3.exceptions.HTTPError:
        raw = b""
    finally:
        response.close()
    return error_of(response.status, raw)


def broken() -> tuple[type[Exception], ...]:
    """Exceptions of a broken connection while a response is read."""
    return (urllib3.exceptions.HTTPError, OSError)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
