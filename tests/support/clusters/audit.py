"""What was asked of an API server, by its audit log: which rights were used, and what was refused."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from devcluster.controlplane.lifecycle import DevCluster
from devcluster.controlplane.supervisor import AUDIT_LOG
from tools.docs.permissions import Right, of_role, resource

Manifest = dict[str, Any]
Granted = tuple[str, Right]
"""A right and the role that has it."""

FOLDER = "DISTTEST_AUDIT_LOGS"
"""Variable that names where clusters leave their logs."""
ACCOUNT = "system:serviceaccount:"
ANONYMOUS = "system:anonymous"
OF_EVERYBODY = frozenset({"system:discovery"})
"""The list of kinds: Kubernetes serves it to all authenticated clients, and kopf requests it."""
REVIEW = {"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]}
BY_ROLE = re.compile(r'RBAC: allowed by (?:Cluster)?RoleBinding "[^"]+" of (?:Cluster)?Role "(?P<role>[^"]+)"')


# Of all ServiceAccounts but the controllers' own, and of who has no name. Of a review the answer too: it tells by which
# role a scraper may read metrics. Reviews of tokens carry tokens: never more than Metadata of these.
OF_RIGHTS: tuple[Manifest, ...] = (
    {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
    {"level": "RequestResponse", "userGroups": ["system:serviceaccounts"], "resources": [REVIEW]},
    {"level": "Metadata", "userGroups": ["system:serviceaccounts", "system:unauthenticated"]},
)


def keep(state: Path) -> None:
    """Store the log of a cluster that ends for tests/audit, if these tests run."""
    if folder := os.environ.get(FOLDER):
        logs = (Path(tempfile.mkdtemp(dir=folder)) / AUDIT_LOG).parent
        logs.mkdir()
        for file in DevCluster(state).audit_logs():
            shutil.copy(file, logs)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRequest:
    """One that the API server answered at least in part."""

    user: str
    right: Right
    """That it took; its name is that of the object, where it has one."""
    role: str
    """That allowed it; none if it was not by RBAC."""
    is_allowed: bool
    """By authorization; admission may still have refused it."""
    code: int
    uri: str
    message: str
    of_reader: Granted | None
    """The permission of a scraper that this request reviewed and found."""

    @classmethod
    def read(cls, event: Manifest) -> Self:
        target, notes = event.get("objectRef") or {}, event.get("annotations") or {}
        status = event.get("responseStatus") or {}
        by = BY_ROLE.search(notes.get("authorization.k8s.io/reason", ""))
        name = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
        what = resource(name, target.get("apiGroup", "")) if name else event["requestURI"].partition("?")[0]
        return cls(
            user=event["user"]["username"],
            right=Right(what, event["verb"], target.get("name", "")),
            role=by["role"] if by else "",
            is_allowed=notes.get("authorization.k8s.io/decision") == "allow",
            code=status.get("code", 0),
            uri=event["requestURI"],
            message=status.get("message", ""),
            of_reader=_of_reader(event),
        )

    @property
    def words(self) -> str:
        by = f" by {self.role}" if self.role else ""
        return f"{self.user}: {self.right.verb} {self.uri}: {self.code}{by} {self.message}".strip()


def _of_reader(event: Manifest) -> Granted | None:
    review = event.get("responseObject") or {}
    status = review.get("status") or {}
    by = BY_ROLE.search(status.get("reason", ""))
    if not by or not status.get("allowed"):
        return None
    asked = review["spec"]["nonResourceAttributes"]
    return by["role"], Right(asked["path"], asked["verb"])


def requests(state: Path) -> list[AuditedRequest]:
    return [AuditedRequest.read(event) for event in DevCluster(state).audit_events()]


def granted(manifests: Iterable[Manifest], *users: str) -> set[Granted]:
    """What these ServiceAccounts may do by the roles and bindings among the manifests."""
    entries = list(manifests)
    bound = {
        (
            entry["roleRef"]["kind"],
            entry["roleRef"]["name"],
            _place(entry) if entry["roleRef"]["kind"] == "Role" else "",
        )
        for entry in entries
        if entry["kind"] in {"RoleBinding", "ClusterRoleBinding"}
        and any(_user(subject) in users for subject in entry.get("subjects") or ())
    }
    roles = {(entry["kind"], entry["metadata"]["name"], _place(entry)): entry for entry in entries if "rules" in entry}
    return {(key[1], right) for key in bound for right in of_role(roles[key])}


def _place(entry: Manifest) -> str:
    return str(entry["metadata"].get("namespace", ""))


def _user(subject: Manifest) -> str:
    return f"{ACCOUNT}{subject.get('namespace', '')}:{subject['name']}" if subject["kind"] == "ServiceAccount" else ""


def used(asked: Iterable[AuditedRequest]) -> set[Granted]:
    """Rights by which requests were allowed, and those that scrapers were found to have."""
    seen = set()
    for request in asked:
        if request.is_allowed and request.role:
            seen.add((request.role, request.right))
        if request.of_reader:
            seen.add(request.of_reader)
    return seen


def unused(have: Iterable[Granted], seen: Iterable[Granted]) -> set[Granted]:
    """A right that is good for one object is used by requests for that one, any other by all of its verb."""
    exactly = set(seen)
    anyhow = {(role, Right(right.resource, right.verb)) for role, right in exactly}
    return {one for one in have if one not in (exactly if one[1].name else anyhow)}


def by_other_roles(asked: Iterable[AuditedRequest], roles: Iterable[str]) -> list[AuditedRequest]:
    """What was allowed, but not by these."""
    known = set(roles)
    return [request for request in asked if request.is_allowed and request.role not in known]


def refused(asked: Iterable[AuditedRequest]) -> list[AuditedRequest]:
    """For a missing permission, or by admission."""
    return [request for request in asked if request.code == 403 or not request.is_allowed]


def strangers(asked: Iterable[AuditedRequest], users: Iterable[str]) -> list[AuditedRequest]:
    """Requests of other ServiceAccounts and anonymous clients: pods of runs must not send any."""
    known = set(users)
    return [request for request in asked if request.user not in known]


def as_text(what: Iterable[AuditedRequest | Granted]) -> str:
    """Each once, a line each, for a failed assertion."""
    return "\n".join(
        sorted({one.words if isinstance(one, AuditedRequest) else f"{one[0]}: {one[1].words}" for one in what})
    )
