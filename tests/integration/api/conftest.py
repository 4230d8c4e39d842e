"""The custom resources, installed on the real API server."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from disttest_operator.core.workload import job
from tests.data.good_manifest import GOOD
from tests.support import patience
from tests.support.clusters.api import MANIFESTS, Api
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator_token import Answer, Token, a_test


@pytest.fixture(scope="session")
def api(cluster: SessionCluster) -> Iterator[Api]:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "crd"))
    for name in ("disttests", "disttestseries"):
        cluster.kubectl(
            "wait", "--for=condition=Established", f"crd/{name}.disttest.dev", f"--timeout={patience.whole(30)}s"
        )
    # kubectl keeps what it knew of the API server before; `explain` does not look again for short names.
    cluster.kubectl("api-resources", "--cached=false")
    with (
        cluster.namespace() as namespace,
        subprocess.Popen(cluster.command("proxy", "--port=0"), stdout=subprocess.PIPE, text=True) as proxy,
    ):
        try:
            assert proxy.stdout is not None
            port = int(proxy.stdout.readline().rpartition(":")[2])
            api = Api(port, cluster, namespace)
            cluster.wait_until("the new kinds are served", lambda: api.dry_run(GOOD)[0] == 201, 30)
            yield api
        finally:
            proxy.terminate()


@pytest.fixture(scope="session")
def policies(api: Api, installed: Path) -> Token:
    """The operator's token, once the policies that hold it are active, which takes a moment."""
    token = Token(api)
    nobodys = job.build_service(a_test(api.namespace), 1)
    nobodys["metadata"]["ownerReferences"] = []
    asked: dict[str, Callable[[], Answer]] = {
        "disttest-operator": lambda: token.ask("POST", token.services, nobodys),
        "disttest-operator-jobs": lambda: token.create_job({"pod": {"automountServiceAccountToken": True}}),
        "disttest-operator-services": lambda: token.create_service({"selector": None}),
        "disttest-operator-configmaps": lambda: token.create_report({"immutable": False}),
    }
    for name, ask in asked.items():
        api.cluster.wait_until(f"{name} refuses", lambda by=name, how=ask: f"'{by}'" in how()[1])  # type: ignore[misc]
    return token
