"""How a Prometheus scrapes an operator, ServiceAccounts that may scrape or not, and single scrapes over HTTPS."""

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import OperatorProcess

READER_ROLE = "disttest-metrics-reader"
SECONDS = 10


def config(port: int, **scrape: Any) -> dict[str, Any]:
    """Of a Prometheus that scrapes this port every second, as `scrape` says."""
    wanted = {"job_name": "operator", "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": [{**wanted, **scrape}]}


def account(cluster: SessionCluster, namespace: str, name: str, *, may_scrape: bool) -> None:
    cluster.kubectl("create", "serviceaccount", name, "--namespace", namespace)
    if may_scrape:
        subject = f"--serviceaccount={namespace}:{name}"
        cluster.kubectl(
            "create", "clusterrolebinding", binding(namespace, name), f"--clusterrole={READER_ROLE}", subject
        )


def binding(namespace: str, name: str) -> str:
    return f"{namespace}-{name}"


def token(cluster: SessionCluster, namespace: str, name: str) -> str:
    """A fresh one each time."""
    return cluster.kubectl("create", "token", name, "--namespace", namespace).strip()


def scrape(operator: OperatorProcess, header: str = "", ca: Path | None = None) -> tuple[int, str, Mapping[str, str]]:
    """Status, text and headers; the certificate is verified by `ca` where there is one."""
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False  # it is asked for by an address
    if ca is None:
        context.verify_mode = ssl.CERT_NONE
    url = f"https://127.0.0.1:{operator.metrics_port}/metrics"
    asked = urllib.request.Request(url, headers={"Authorization": header} if header else {})
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS, context=context) as answer:  # noqa: S310  # as above
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)
