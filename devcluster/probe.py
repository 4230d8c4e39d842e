"""Is the control plane there? Asked while the cluster starts."""

import json
import ssl
import urllib.request
from pathlib import Path

from devcluster import kubeconfig

ANSWER_SECONDS = 5


class ApiProbe:
    def __init__(self, state: Path) -> None:
        config = json.loads((state / kubeconfig.INSIDE).read_text())
        self._server: str = config["clusters"][0]["cluster"]["server"]
        self._headers = {"Authorization": "Bearer " + config["users"][0]["user"]["token"]}
        self._tls = ssl.create_default_context(cafile=state / "pki" / "ca.crt")

    def _get(self, path: str) -> bytes:
        """The answer; empty where there is none yet."""
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
        """The first thing that the controllers make and that pods need."""
        return bool(self._get("/api/v1/namespaces/default/serviceaccounts/default"))

    def ready_nodes(self) -> int:
        nodes = json.loads(self._get("/api/v1/nodes") or b'{"items": []}')["items"]
        return sum("conditions" in node["status"] and not node["spec"].get("taints") for node in nodes)
