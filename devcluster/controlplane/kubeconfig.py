"""Client configurations (JSON, which is YAML) and the table of static tokens that the API server reads."""

import json
import secrets
import ssl
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from devcluster.machine.settings import API_PORT, GATEWAY

HOST = "kubeconfig"  # administrator, from the host, by the forwarded port
INSIDE = "inside.kubeconfig"  # administrator, in the cluster's network
INSIDE_SERVER = f"https://{GATEWAY}:{API_PORT}"
TOKENS = "tokens.csv"


def write_all(state: Path, nodes: Sequence[str], host_port: int) -> None:
    authority = state / "pki" / "ca.crt"
    rows: list[str] = []

    def write(file: str, server: str, user: str, *groups: str) -> None:
        token = secrets.token_hex(16)
        rows.append(f'{token},{user},{user},"{",".join(groups)}"\n')
        write_one(state / file, server, authority, token)

    write(HOST, f"https://127.0.0.1:{host_port}", "admin", "system:masters")
    write(INSIDE, INSIDE_SERVER, "admin", "system:masters")
    for program in ("kube-controller-manager", "kube-scheduler"):
        write(f"{program}.kubeconfig", INSIDE_SERVER, f"system:{program}")
    for node in nodes:
        write(f"{node}.kubeconfig", INSIDE_SERVER, f"system:node:{node}", "system:nodes")
    _write_private(state / TOKENS, "".join(rows))


def write_one(file: Path, server: str, authority: Path, token: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "dev", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "dev", "user": {"token": token}}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "dev", "namespace": "default"}}],
    }
    _write_private(file, json.dumps(config, indent=1))


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


ANSWER_SECONDS = 5


class ApiProbe:
    def __init__(self, state: Path) -> None:
        config = json.loads((state / INSIDE).read_text())
        self._server: str = config["clusters"][0]["cluster"]["server"]
        self._headers = {"Authorization": "Bearer " + config["users"][0]["user"]["token"]}
        self._tls = ssl.create_default_context(cafile=state / "pki" / "ca.crt")

    def _get(self, path: str) -> bytes:
        """Return the response; empty while there is none."""
        request = urllib.request.Request(self._server + path, headers=self._headers)  # noqa: S310 - always our https
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - same
                data: bytes = answer.read()
                return data
        except OSError:
            return b""

    def is_ready(self) -> bool:
        return bool(self._get("/readyz"))

    def has_service_account(self) -> bool:
        """Whether the controllers have created the first object that pods need."""
        return bool(self._get("/api/v1/namespaces/default/serviceaccounts/default"))

    def ready_nodes(self) -> int:
        nodes = json.loads(self._get("/api/v1/nodes") or b'{"items": []}')["items"]
        return sum("conditions" in node["status"] and not node["spec"].get("taints") for node in nodes)
