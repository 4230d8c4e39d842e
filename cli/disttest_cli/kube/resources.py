"""Kinds of objects that commands use, and their paths."""

from dataclasses import dataclass

from disttest_operator.core.api.model import GROUP, VERSION


@dataclass(frozen=True, slots=True)
class Resource:
    group: str
    version: str
    plural: str

    def path(self, namespace: str = "", name: str = "") -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{place}/{self.plural}" + (f"/{name}" if name else "")


RUNS = Resource(GROUP, VERSION, "disttests")
SERIES = Resource(GROUP, VERSION, "disttestseries")
CONFIG_MAPS = Resource("", "v1", "configmaps")
EVENTS = Resource("", "v1", "events")
NODES = Resource("", "v1", "nodes")
PODS = Resource("", "v1", "pods")
NAMESPACES = Resource("", "v1", "namespaces")
QUOTAS = Resource("", "v1", "resourcequotas")
LIMIT_RANGES = Resource("", "v1", "limitranges")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")


def follow_with(namespace: str, name: str) -> str:
    return f"kubectl wait -n {namespace} --for=condition=Finished --timeout=-1s disttest/{name}"
