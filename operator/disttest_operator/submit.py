"""`python -m disttest_operator.submit FILE`: create the DistTest of a file, from a pod; print its name."""

import http.client
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from disttest_operator.core.model import API_VERSION, GROUP, VERSION

CREDENTIALS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 30
PATIENCE_SECONDS = 120  # with an API server that is not there or overloaded
PAUSE_SECONDS = 3
BUSY = frozenset({429, 503})  # of the answers that speak of load, those that mean: nothing was done


class SubmitError(Exception):
    """The DistTest was not created; the message is one line for the user."""


class BusyError(SubmitError):
    """The API server did not take the request, and may take it later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The API server as a pod sees it."""

    url: str
    token: str
    namespace: str
    tls: ssl.SSLContext | None

    @classmethod
    def of_this_pod(cls, environ: Mapping[str, str]) -> Self:
        host = environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        port = environ.get("KUBERNETES_SERVICE_PORT", "443")
        try:
            return cls(
                url=f"https://{f'[{host}]' if ':' in host else host}:{port}",
                token=(CREDENTIALS / "token").read_text(),
                namespace=(CREDENTIALS / "namespace").read_text(),
                tls=ssl.create_default_context(cafile=str(CREDENTIALS / "ca.crt")),
            )
        except OSError as error:
            raise SubmitError(f"this runs in a pod with a ServiceAccount's token: {error}") from error


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m disttest_operator.submit FILE", file=sys.stderr)
        return 2
    try:
        manifest = read(Path(arguments[0]))
        print(submit(manifest, Cluster.of_this_pod(os.environ)))
    except SubmitError as error:
        print(f"disttest: {error}", file=sys.stderr)
        return 2
    return 0


def read(path: Path) -> dict[str, Any]:
    """The one DistTest in a file."""
    try:
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise SubmitError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise SubmitError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict) or documents[0].get("kind") != "DistTest":
        raise SubmitError(f"{path} must hold one DistTest, of apiVersion {API_VERSION}")
    if not isinstance(documents[0].get("metadata"), dict):
        raise SubmitError(f"{path} has no metadata: write metadata with name or generateName")
    return documents[0]


def submit(
    manifest: Mapping[str, Any],
    cluster: Cluster,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    pause_seconds: float = PAUSE_SECONDS,
) -> str:
    """Create it and return its name. Tried again only where the API server has not taken the request."""
    namespace = manifest["metadata"].get("namespace") or cluster.namespace
    url = f"{cluster.url}/apis/{GROUP}/{VERSION}/namespaces/{namespace}/disttests?fieldValidation=Strict"
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return _post(url, manifest, cluster)
        except BusyError:
            if time.monotonic() + pause_seconds > deadline:
                raise
            time.sleep(pause_seconds)


def _post(url: str, manifest: Mapping[str, Any], cluster: Cluster) -> str:
    request = urllib.request.Request(  # noqa: S310  # the address is the API server's
        url,
        data=json.dumps(manifest, default=str).encode(),
        headers={"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=cluster.tls) as answer:  # noqa: S310  # same
            return str(json.load(answer)["metadata"]["name"])
    except urllib.error.HTTPError as error:
        with error:
            message = _message(error)
        if error.code in BUSY:
            raise BusyError(message) from error
        raise SubmitError(message) from error
    except urllib.error.URLError as error:  # raised while connecting or sending: the server has taken nothing whole
        raise BusyError(f"cannot reach the API server at {cluster.url}: {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise SubmitError(
            f"the API server's answer was lost ({type(error).__name__}: {error}); the DistTest may exist"
        ) from error


def _message(error: urllib.error.HTTPError) -> str:
    """The API server's sentence, in one line."""
    try:
        text = str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        text = str(error)
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
