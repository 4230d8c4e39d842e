from tests.support.clusters.cluster import SessionCluster

SIDECAR = "grafana_dashboard=1"


def test_the_dashboards_can_be_applied_again_and_again_by_the_client(cluster: SessionCluster, namespace: str) -> None:
    """A client keeps the whole object in an annotation, which has a limit."""
    apply = ("apply", "-n", namespace, "-k", "manifests/monitoring/dashboards")
    assert cluster.kubectl(*apply).count("created") == 4
    assert cluster.kubectl(*apply).count("unchanged") == 4
    names = cluster.kubectl("get", "configmaps", "-n", namespace, "-l", SIDECAR, "-o", "name").split()
    assert [name.rpartition("-")[2] for name in names] == ["fabric", "nights", "operator", "series"]
