"""What a request to the API server is, for counting: verb and resource, as RBAC names them."""

from collections.abc import Mapping
from dataclasses import dataclass

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    verb: str
    resource: str
    namespace: str = ""


def describe(method: str, path: str, query: Mapping[str, str]) -> Request:
    """`GET /api/v1/namespaces/n/pods/p/log` is get pods/log."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return Request(verb="get", resource="discovery")
    resource = "/".join([rest[0], *rest[2:3]])
    if method != "GET":
        return Request(verb=VERBS.get(method, method.lower()), resource=resource, namespace=namespace)
    if query.get("watch", "").lower() in {"true", "1"}:
        return Request(verb="watch", resource=resource, namespace=namespace)
    return Request(verb="get" if len(rest) > 1 else "list", resource=resource, namespace=namespace)
