"""Kinds of Kubernetes objects that operator and command line use, and their paths on the API server."""

from dataclasses import dataclass
from enum import Enum

from disttest_operator.core.api.model import API_VERSION


@dataclass(frozen=True, slots=True)
class Resource:
    api_version: str
    plural: str

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of all objects, of those in a namespace, or of one."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{place}/{self.plural}" + (f"/{name}" if name else "")


class Kind(Enum):
    RUN = Resource(API_VERSION, "disttests")
    SERIES = Resource(API_VERSION, "disttestseries")
    JOB = Resource("batch/v1", "jobs")
    CRON_JOB = Resource("batch/v1", "cronjobs")
    DEPLOYMENT = Resource("apps/v1", "deployments")
    POD = Resource("v1", "pods")
    SERVICE = Resource("v1", "services")
    CONFIG_MAP = Resource("v1", "configmaps")
    SERVICE_ACCOUNT = Resource("v1", "serviceaccounts")
    CLAIM = Resource("v1", "persistentvolumeclaims")
    NAMESPACE = Resource("v1", "namespaces")
    QUOTA = Resource("v1", "resourcequotas")
    LIMIT_RANGE = Resource("v1", "limitranges")
    NODE = Resource("v1", "nodes")
    CORE_EVENT = Resource("v1", "events")
    EVENT = Resource("events.k8s.io/v1", "events")
    LEASE = Resource("coordination.k8s.io/v1", "leases")
    TOKEN_REVIEW = Resource("authentication.k8s.io/v1", "tokenreviews")
    ACCESS_REVIEW = Resource("authorization.k8s.io/v1", "subjectaccessreviews")
    SELF_ACCESS_REVIEW = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews")

    @property
    def api_version(self) -> str:
        return self.value.api_version

    @property
    def resource(self) -> str:
        return self.value.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        return self.value.path(namespace, name)
