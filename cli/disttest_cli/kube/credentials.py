"""Credentials of a kubeconfig's user: tokens, passwords, certificates, and exec plugins."""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import SSLContext
from typing import Any

EXPIRY_SKEW = timedelta(minutes=1)  # time before its expiry at which a token is replaced
PLUGIN_SECONDS = 60.0  # timeout of a plugin that cannot ask the user
PLUGIN_EXTENSION = "client.authentication.k8s.io/exec"


class CredentialsError(Exception):
    """One line: which credentials cannot be read, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """`authorization` is the value of the header; `certificate` and `key` are PEM."""

    authorization: str = ""
    certificate: str = ""
    key: str = ""
    expires: datetime | None = None

    def load_into(self, context: SSLContext) -> None:
        """Python reads keys from files only, so temporary ones are written."""
        if not self.certificate:
            return
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder) / "certificate.pem", Path(folder) / "key.pem"
            certificate.write_text(self.certificate)
            key.write_text(self.key)
            context.load_cert_chain(certificate, key if self.key else None)


Source = Callable[[], Credential]  # called for each request, since tokens expire


def of_user(user: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> Source:
    """Like kubectl: tokenFile before exec, exec before token and password. Paths are relative to `folder`."""
    certificate = read(user, "client-certificate", folder)
    key = read(user, "client-key", folder)
    if user.get("tokenFile"):
        path = folder / str(user["tokenFile"])
        return lambda: Credential(authorization=f"Bearer {_text(path)}", certificate=certificate, key=key)
    if user.get("exec"):
        plugin = Plugin(user["exec"], cluster, folder)
        return plugin.credential
    words = ""
    if user.get("token"):
        words = f"Bearer {user['token']}"
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        words = f"Basic {base64.b64encode(pair.encode()).decode()}"
    fixed = Credential(authorization=words, certificate=certificate, key=key)
    return lambda: fixed


def of_file(path: Path) -> Source:
    """The token of a ServiceAccount; the kubelet replaces the file."""
    return lambda: Credential(authorization=f"Bearer {_text(path)}")


def read(entry: Mapping[str, Any], name: str, folder: Path) -> str:
    """PEM from `NAME-data` or from the file `NAME`; empty if both are unset."""
    data = f"{name}-data"
    if entry.get(data):
        try:
            return base64.b64decode(str(entry[data]), validate=True).decode("ascii", errors="ignore")
        except ValueError as error:
            raise CredentialsError(f"{data} is not base64: {error}") from error
    return _text(folder / str(entry[name]), name) if entry.get(name) else ""


def _text(path: Path, name: str = "token file") -> str:
    try:
        return path.expanduser().read_text(encoding="ascii", errors="ignore").strip()
    except OSError as error:
        raise CredentialsError(f"{name} {path} cannot be read: {error.strerror}") from error


class Plugin:
    """A program that prints an ExecCredential, such as kubelogin."""

    def __init__(self, settings: Any, cluster: Mapping[str, Any], folder: Path) -> None:
        if not isinstance(settings, dict) or not settings.get("command"):
            raise CredentialsError("exec of the user names no command")
        self._settings, self._cluster, self._folder = settings, cluster, folder
        self._made: Credential | None = None

    def credential(self) -> Credential:
        made = self._made
        if made is None or (made.expires and datetime.now(UTC) >= made.expires - EXPIRY_SKEW):
            made = self._made = self._run()
        return made

    def _run(self) -> Credential:
        # A program can ask for a password at a terminal only.
        asks = sys.stdin.isatty() and self._settings.get("interactiveMode") != "Never"
        command = str(self._settings["command"])
        if "/" in command:
            command = str(self._folder / command)
        try:
            done = subprocess.run(
                [command, *map(str, self._settings.get("args") or ())],
                env=self._environment(interactive=asks),
                stdin=None if asks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if asks else subprocess.PIPE,
                text=True,
                check=False,
                timeout=None if asks else PLUGIN_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise CredentialsError(f"exec plugin {command} did not respond within {PLUGIN_SECONDS:g} s") from error
        except OSError as error:
            hint = f". {self._settings['installHint']}" if self._settings.get("installHint") else ""
            raise CredentialsError(f"exec plugin {command} cannot be started: {error.strerror}{hint}") from error
        if done.returncode:
            output = f": {done.stderr.strip()}" if done.stderr else ""
            raise CredentialsError(f"exec plugin {command} failed with exit code {done.returncode}{output}")
        return _credential(done.stdout, command)

    def _environment(self, *, interactive: bool) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._settings.get("provideClusterInfo"):
            extensions = self._cluster.get("extensions") or ()
            config = [one.get("extension") for one in extensions if one.get("name") == PLUGIN_EXTENSION]
            spec["cluster"] = {**self._cluster, **({"config": config[0]} if config else {})}
        info = {"apiVersion": self._settings.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
        added = {str(one["name"]): str(one["value"]) for one in self._settings.get("env") or ()}
        return {**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _credential(printed: str, command: str) -> Credential:
    try:
        status = json.loads(printed)["status"]
        expires = status.get("expirationTimestamp")
        return Credential(
            authorization=f"Bearer {status['token']}" if status.get("token") else "",
            certificate=status.get("clientCertificateData") or "",
            key=status.get("clientKeyData") or "",
            expires=datetime.fromisoformat(expires) if expires else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CredentialsError(f"exec plugin {command} printed no ExecCredential: {error}") from error
