"""Address and credentials of an API server, from kubeconfigs or from the ServiceAccount of a pod.

The Kubernetes client could read kubeconfigs too, but importing it takes longer than the request.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from disttest_cli.kube import credentials
from disttest_cli.kube.credentials import CredentialsError, Source
from disttest_cli.lazy import yaml

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
KINDS = ("contexts", "clusters", "users")
HOW = "Name a file with --kubeconfig."


class InvalidKubeconfigError(Exception):
    """One line: what is missing or invalid, and in which file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """An API server. `namespace` is the default namespace; `authority` is PEM."""

    server: str
    namespace: str
    credential: Source
    authority: str = ""
    server_name: str = ""
    is_verified: bool = True
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Paths in `body` are relative to `folder`, that of the kubeconfig."""

    body: Mapping[str, Any]
    folder: Path


@dataclass(slots=True)
class _Merged:
    """Several kubeconfigs; the first of entries with the same name counts."""

    current: str = ""
    entries: dict[str, dict[str, _Entry]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    def entry(self, kind: str, name: str) -> _Entry:
        found = self.entries[kind].get(name)
        if found is None:
            known = ", ".join(self.entries[kind]) or "none"
            raise InvalidKubeconfigError(f"the kubeconfig has no {kind[:-1]} {name!r}; known: {known}")
        return found


def load(environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "") -> ApiServer:
    """A named kubeconfig or context comes before the pod's ServiceAccount, which comes before ~/.kube/config.

    Raises InvalidKubeconfigError and CredentialsError.
    """
    listed = environ.get("KUBECONFIG", "")
    if not (kubeconfig or context or listed) and (ACCOUNT / "token").exists():
        return _of_pod(environ)
    home = Path("~/.kube/config").expanduser()
    paths = [Path(kubeconfig)] if kubeconfig else [Path(one).expanduser() for one in listed.split(":") if one] or [home]
    existing = [path for path in paths if path.exists()]
    if not existing:
        named = "--kubeconfig names" if kubeconfig else "$KUBECONFIG names" if listed else ""
        raise InvalidKubeconfigError(_none_found(named, paths))
    merged = _Merged()
    for path in existing:
        _merge(merged, path)
    return _target(merged, context, environ, ":".join(map(str, existing)))


def _none_found(named: str, paths: list[Path]) -> str:
    if named:
        verb = "does" if len(paths) == 1 else "do"
        return f"no kubeconfig found: {named} {' and '.join(map(str, paths))}, which {verb} not exist. {HOW}"
    return (
        f"no kubeconfig found: $KUBECONFIG is not set, {paths[0]} does not exist, and this is not a pod "
        f"({ACCOUNT / 'token'} does not exist). {HOW}"
    )


def _merge(merged: _Merged, path: Path) -> None:
    try:
        config = yaml.load(path.read_text(encoding="utf-8"), Loader=_loader()) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidKubeconfigError(f"{path} cannot be read: {error}. {HOW}") from error
    if not isinstance(config, dict):
        raise InvalidKubeconfigError(f"{path} is not a kubeconfig. {HOW}")
    merged.current = merged.current or str(config.get("current-context") or "")
    for kind in KINDS:
        entries = config.get(kind) or ()
        if not isinstance(entries, list | tuple) or not all(isinstance(one, dict) for one in entries):
            raise InvalidKubeconfigError(f"{path}: {kind} must be a list of mappings. {HOW}")
        for entry in entries:
            body = entry.get(kind[:-1])
            found = _Entry(body if isinstance(body, dict) else {}, path.absolute().parent)
            merged.entries[kind].setdefault(str(entry.get("name")), found)


def _loader() -> "type[yaml.SafeLoader | yaml.CSafeLoader]":
    """Libyaml's loader if available, since a file may contain dozens of clusters with certificates."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _target(merged: _Merged, context: str, environ: Mapping[str, str], file: str) -> ApiServer:
    name = context or merged.current
    if not name:
        raise InvalidKubeconfigError(
            f"{file} has no current-context. Use --context, or name another file with --kubeconfig."
        )
    chosen = merged.entry("contexts", name).body
    cluster = merged.entry("clusters", str(chosen.get("cluster") or ""))
    user = merged.entry("users", str(chosen["user"])) if chosen.get("user") else _Entry({}, Path())
    server = str(cluster.body.get("server") or "").rstrip("/")
    if not server:
        raise InvalidKubeconfigError(f"cluster {chosen.get('cluster')!r} in {file} has no server")
    source = _legacy(file, name) if user.body.get("auth-provider") else None
    return ApiServer(
        server=server,
        namespace=str(chosen.get("namespace") or "default"),
        credential=source or credentials.of_user(user.body, cluster.body, user.folder),
        authority=credentials.read(cluster.body, "certificate-authority", cluster.folder),
        server_name=str(cluster.body.get("tls-server-name") or ""),
        is_verified=not cluster.body.get("insecure-skip-tls-verify"),
        proxy=str(cluster.body.get("proxy-url") or "") or proxy_of(urlsplit(server), environ),
    )


def _of_pod(environ: Mapping[str, str]) -> ApiServer:
    host, port = environ.get(HOST), environ.get(PORT)
    if not host or not port:
        raise InvalidKubeconfigError(f"{HOST} and {PORT} are not set in this pod. {HOW}")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        namespace = (ACCOUNT / "namespace").read_text().strip()
        authority = (ACCOUNT / "ca.crt").read_text()
    except OSError as error:
        raise InvalidKubeconfigError(f"{error.filename} cannot be read: {error.strerror}. {HOW}") from error
    return ApiServer(
        server=server,
        namespace=namespace,
        credential=credentials.of_file(ACCOUNT / "token"),
        authority=authority,
        proxy=proxy_of(urlsplit(server), environ),
    )


def _legacy(file: str, context: str) -> Source:
    """Users with the legacy auth-provider, which the Kubernetes client can refresh."""
    from kubernetes import client, config  # noqa: PLC0415  # the import takes a second

    configuration = client.Configuration()
    try:
        config.load_kube_config(file, context, configuration, persist_config=False)
    except (config.ConfigException, ValueError, KeyError, TypeError) as error:
        raise CredentialsError(f"auth-provider of the user in {file}: {error}") from error

    def credential() -> credentials.Credential:
        token = configuration.get_api_key_with_prefix("BearerToken")
        return credentials.Credential(authorization=token or "")

    return credential


def proxy_of(server: SplitResult, environ: Mapping[str, str]) -> str:
    """The proxy by HTTPS_PROXY, HTTP_PROXY and NO_PROXY (names, domains, networks), like kubectl; none for loopback."""
    proxies = {key.lower(): value for key, value in environ.items() if key.lower().endswith("_proxy") and value}
    wanted = proxies.get(f"{server.scheme}_proxy", "")
    host = server.hostname or ""
    if not wanted or host == "localhost":
        return ""
    excepted = [one.strip().lower() for one in proxies.get("no_proxy", "").split(",") if one.strip()]
    address = _address(host)
    if address and address.is_loopback:
        return ""
    is_excepted = any(_covers(one, host, server.port, address) for one in excepted)
    return "" if is_excepted else wanted


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _covers(
    pattern: str, host: str, port: int | None, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:
    if pattern == "*":
        return True
    if address:
        try:
            return address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return pattern == f"{host}:{port}"
    domain = pattern.removeprefix("*").removeprefix(".")
    return host == domain or host.endswith(f".{domain}") or pattern == f"{host}:{port}"
