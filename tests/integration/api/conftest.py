"""The custom resources, installed on the real API server."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.data.good_manifest import GOOD
from tests.support.api import MANIFESTS, Api
from tests.support.cluster import Cluster


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Iterator[Api]:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "crd"))
    for name in ("disttests", "disttestseries"):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}.disttest.dev", "--timeout=30s")
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
