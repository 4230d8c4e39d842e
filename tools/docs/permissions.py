"""The list "RBAC permissions" of docs/operating/security.md: the permissions of all roles, and their purpose. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.docs import PageError, between

# A resource that is followed by a name: the permission is limited to the object of that name.
REASONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "disttest-operator": {
        "disttests.disttest.dev": {"get, list, watch, delete": "Read runs; apply `ttlSecondsAfterFinished`"},
        "disttests.disttest.dev/status": {"patch": "Write phase, progress and verdict"},
        "disttests.disttest.dev/finalizers": {"update": "Set owner references that block deletion"},
        "disttestseries.disttest.dev": {
            "get, list, watch, create, delete": "Manage series; apply `--series-idle-days`"
        },
        "disttestseries.disttest.dev/status": {"patch": "Record runs"},
        "jobs.batch": {"get, list, watch, create, delete": "Start, follow and end attempts"},
        "cronjobs.batch": {"list, watch": "Compute when runs are due"},
        "pods": {"list, watch": "Follow the pods of a run"},
        "pods/log": {"get": "Read progress, reports and hardware errors"},
        "services": {"get, create, delete": "Give pods DNS names"},
        "configmaps": {"get, create, patch": "Read suites; write reports", "delete": "Change the owners of reports"},
        "serviceaccounts": {"get": "Report a missing ServiceAccount"},
        "persistentvolumeclaims": {"get": "Report a missing claim"},
        "events": {"list": "Explain why pods do not start"},
        "events.events.k8s.io": {"create": "Publish events of runs"},
    },
    "disttest-operator-lease": {
        "leases.coordination.k8s.io": {"create": "Elect the active operator"},
        "leases.coordination.k8s.io disttest-operator": {"get, update": "Elect the active operator"},
    },
    "disttest-operator-nodes": {"nodes": {"list": "Count GPUs, find unhealthy nodes (optional)"}},
    "disttest-operator-metrics": {
        "tokenreviews.authentication.k8s.io": {"create": "Identify metrics clients"},
        "subjectaccessreviews.authorization.k8s.io": {"create": "Check their access to `/metrics`"},
    },
    "disttest-operator-suspects": {"nodes": {"patch": "Set `disttest.dev/suspect`, only with `rbac/suspects`"}},
    "disttest-nightly": {"disttests.disttest.dev": {"create, get, watch": "Create nightly runs"}},
    "disttest-metrics-reader": {"/metrics": {"get": "For Prometheus (bind it); includes metrics of the API server"}},
    "disttest-edit": {
        "disttests.disttest.dev": {
            "get, list, watch, create, update, patch, delete, deletecollection": "Part of `edit` and `admin`"
        }
    },
    "disttest-view": {
        "disttests.disttest.dev": {"get, list, watch": "Part of `view`, `edit` and `admin`"},
        "disttestseries.disttest.dev": {"get, list, watch": "Part of `view`, `edit` and `admin`"},
    },
    "disttest-template-user": {
        "disttests.disttest.dev/template": {"use": "For [trusted authors](#authors-of-disttests) (you bind it)"}
    },
}

# No such request is sent: the admission plugin OwnerReferencesPermissionEnforcement checks these permissions.
ASKED_BY_ADMISSION = frozenset({"update disttests.disttest.dev/finalizers", "delete configmaps"})


Manifest = Mapping[str, Any]

BEGIN = "<!-- generated from manifests/rbac and tools/docs/permissions.py by `python -m tools.docs` -->"
END = "<!-- end of the generated part -->"
MARK = "**(admission)** "
KINDS = frozenset({"Role", "ClusterRole"})


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource, or on a path of the API server, which starts with a slash."""

    resource: str
    """With group and subresource, as kubectl writes it: `disttests.disttest.dev/status`."""
    verb: str
    name: str = ""
    """Of the only object that it is good for."""

    @property
    def words(self) -> str:
        return f"{self.verb} {self.resource}" + (f" {self.name!r}" if self.name else "")


def resource(name: str, group: str) -> str:
    plural, slash, subresource = name.partition("/")
    return f"{plural}{'.' if group else ''}{group}{slash}{subresource}"


def of_role(role: Manifest) -> set[Right]:
    """The permissions of a Role or ClusterRole. A wildcard is an error: no reason could be given for it."""
    found = set()
    for rule in role["rules"]:
        targets = [resource(name, group) for group in rule.get("apiGroups", ()) for name in rule.get("resources", ())]
        targets += rule.get("nonResourceURLs", ())
        names = rule.get("resourceNames", ("",))
        found |= {Right(target, verb, name) for target in targets for verb in rule["verbs"] for name in names}
    if wild := sorted(right.words for right in found if "*" in right.words):
        raise PageError(f"role {role['metadata']['name']}: write what is meant by {', '.join(wild)}")
    return found


def of_roles(manifests: Sequence[Manifest]) -> dict[str, set[Right]]:
    """The permissions of all roles, by name."""
    return {entry["metadata"]["name"]: of_role(entry) for entry in manifests if entry["kind"] in KINDS}


def listing(manifests: Sequence[Manifest]) -> str:
    """One line for each reason. Raises PageError where a permission has no reason, or a reason no permission."""
    roles = of_roles(manifests)
    if roles.keys() != REASONS.keys():
        raise PageError(f"roles without reasons, or reasons without a role: {sorted(roles.keys() ^ REASONS.keys())}")
    return "\n".join(line for name in REASONS for line in (f"`{name}`:", "", *_lines(name, roles[name]), ""))


def _lines(name: str, granted: set[Right]) -> Iterator[str]:
    rows = list(_rows(name))
    reasoned = {right for rights, _ in rows for right in rights}
    if granted != reasoned:
        without = ", ".join(f"{right.words} of {name}" for right in sorted(granted - reasoned)) or "none"
        gone = ", ".join(f"{right.words} of {name}" for right in sorted(reasoned - granted)) or "none"
        raise PageError(
            f"tools/docs/permissions.py: permissions without a reason: {without}; reasons without a permission: {gone}"
        )
    for rights, why in rows:
        first = rights[0]
        target = f"`{first.resource}`" + (f" `{first.name}` only" if first.name else "")
        mark = MARK if first.words in ASKED_BY_ADMISSION else ""
        yield f"- {target} ({', '.join(right.verb for right in rights)}): {mark}{why}."


def _rows(role: str) -> Iterator[tuple[list[Right], str]]:
    for key, reasons in REASONS[role].items():
        target, _, name = key.partition(" ")
        for verbs, why in reasons.items():
            yield [Right(target, verb, name) for verb in verbs.split(", ")], why


def page(text: str, manifests: Sequence[Manifest]) -> str:
    """The page with a new list between its marks."""
    return between(text, BEGIN, END, listing(manifests))
