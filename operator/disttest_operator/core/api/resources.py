"""Kinds of Kubernetes objects that operator and command line use, and their paths on the API server."""

from enum import Enum
from typing import NamedTuple

from disttest_operator.core.api.model import API_VERSION


class Resource(NamedTuple):
    api_version: str
    resource: str

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of all objects, of those in a namespace, or of one."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{place}/{self.resource}" + (f"/{name}" if name else "")


class Kind(Resource, Enum):
    RUN = API_VERSION, "disttests"
    SERIES = API_VERSION, "disttestseries"
    JOB = "batch/v1", "jobs"
    CRON_JOB = "batch/v1", "cronjobs"
    DEPLOYMENT = "apps/v1", "deployments"
    POD = "v1", "pods"
    SERVICE = "v1", "services"
    CONFIG_MAP = "v1", "configmaps"
    SERVICE_ACCOUNT = "v1", "serviceaccounts"
    CLAIM = "v1", "persistentvolumeclaims"
    NAMESPACE = "v1", "namespaces"
    QUOTA = "v1", "resourcequotas"
    LIMIT_RANGE = "v1", "limitranges"
    NODE = "v1", "nodes"
    CORE_EVENT = "v1", "events"
    EVENT = "events.k8s.io/v1", "events"
    LEASE = "coordination.k8s.io/v1", "leases"
    TOKEN_REVIEW = "authentication.k8s.io/v1", "tokenreviews"
    ACCESS_REVIEW = "authorization.k8s.io/v1", "subjectaccessreviews"
    SELF_ACCESS_REVIEW = "authorization.k8s.io/v1", "selfsubjectaccessreviews"
