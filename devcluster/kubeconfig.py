"""Client configurations (JSON, which is YAML) and the table of static tokens that the API server reads."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from devcluster.network import API_PORT, GATEWAY

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


def write_one(file: Path, server: str, authority: Path, token: str, namespace: str = "default") -> None:
    context = {"cluster": "dev", "user": "dev", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "dev", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "dev", "user": {"token": token}}],
        "contexts": [{"name": "dev", "context": context}],
    }
    _write_private(file, json.dumps(config, indent=1))


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
