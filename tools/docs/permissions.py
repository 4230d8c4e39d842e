"""The chapter "Rights" of docs/security.md: what the roles of the manifests allow, verb by verb, with why. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TITLES = {
    "disttest-operator": "The operator, for runs in every namespace (ClusterRole). The overlay `namespaced` has the "
    "same rules as a Role in each namespace.",
    "disttest-operator-lease": "The operator, in its own namespace (Role).",
    "disttest-operator-nodes": "The operator, for the cluster (ClusterRole). It works without.",
    "disttest-operator-metrics": "The operator, to know who scrapes it (ClusterRole). Both tell who somebody is and "
    "what they may, nothing of what they have, and store nothing.",
    "disttest-operator-suspects": "The operator, only where the component `rbac/suspects` is installed for "
    "`--label-suspect-nodes` (ClusterRole).",
    "disttest-nightly": "The pods of nightly CronJobs, in their namespace (Role).",
    "disttest-metrics-reader": "Whoever scrapes (ClusterRole, bound by you).",
    "disttest-edit": "People who may edit a namespace: part of `edit` and `admin` (ClusterRole).",
    "disttest-view": "People who may view a namespace: part of `view`, `edit` and `admin` (ClusterRole).",
    "disttest-template-user": "Who may not create pods and is trusted all the same (ClusterRole, bound by you).",
}

# A resource that is followed by a name: the right is limited to the object of that name.
REASONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "disttest-operator": {
        "disttests.disttest.dev": {
            "get": "a last look before a run is counted, and whenever a write met a newer version",
            "list, watch": "to know which runs there are",
            "delete": "`ttlSecondsAfterFinished`",
        },
        "disttests.disttest.dev/status": {"patch": "phase, progress and verdict; never the spec"},
        "disttests.disttest.dev/finalizers": {
            "update": "what belongs to a run blocks its deletion by owner reference; no such request is sent",
        },
        "disttestseries.disttest.dev": {
            "get": "the ledger as it is now, before a run is counted in it",
            "list, watch": "to tell its numbers in metrics, and to see when it expires",
            "create": "the first run of a series",
            "delete": "`--series-idle-days`",
        },
        "disttestseries.disttest.dev/status": {"patch": "to count a run; the whole ledger is status"},
        "jobs.batch": {
            "get": "one of which no watch tells: before it is called lost, and when the name is taken",
            "list, watch": "what became of the gang",
            "create": "an attempt is a Job",
            "delete": "to end a gang that is lost, overdue, or not wanted any more",
        },
        "cronjobs.batch": {"list, watch": "when a night is due: those with the label `disttest.dev/series`"},
        "pods": {"list, watch": "where the gang is, and of what it ended"},
        "pods/log": {
            "get": "the leader's log: how far the run is, and the report at its end; others' for signs of "
            "broken hardware"
        },
        "services": {
            "get": "whose it is, before it is deleted and when the name is taken",
            "create": "the names by which the pods of an attempt find their leader",
            "delete": "of an attempt that another one follows",
        },
        "configmaps": {
            "get": "those that a DistTest names, and reports whose owners change",
            "create": "the report",
            "patch": "the owners of a report: its run, and its series while that keeps it",
            "delete": "only who may delete an object may change its owners; no such request is sent",
        },
        "serviceaccounts": {"get": "to say at once that the one that a DistTest names is missing"},
        "persistentvolumeclaims": {"get": "the same"},
        "events": {"list": "why pods do not come"},
        "events.events.k8s.io": {"create": "to tell people what happens to a run"},
    },
    "disttest-operator-lease": {
        "leases.coordination.k8s.io": {"create": "the first operator; RBAC cannot know the name of what is created"},
        "leases.coordination.k8s.io disttest-operator": {
            "get": "who of several operators is active",
            "update": "to become active, to stay it, to hand it over",
        },
    },
    "disttest-operator-nodes": {
        "nodes": {"list": "how many GPUs there are, which nodes are lost or sick, which have the suspect label"},
    },
    "disttest-operator-metrics": {
        "tokenreviews.authentication.k8s.io": {"create": "whose the token of a scraper is"},
        "subjectaccessreviews.authorization.k8s.io": {"create": "whether they may get `/metrics`"},
    },
    "disttest-operator-suspects": {
        "nodes": {"patch": "the label `disttest.dev/suspect`; never a taint, never a cordon"},
    },
    "disttest-nightly": {
        "disttests.disttest.dev": {
            "create": "the night's run",
            "get": "how it is, before each watch; whether it was created by a pod before this one",
            "watch": "to wait for its verdict",
        },
    },
    "disttest-metrics-reader": {
        "/metrics": {
            "get": "what the operator asks of each scraper; the same right opens the API server's own metrics"
        },
    },
    "disttest-edit": {
        "disttests.disttest.dev": {
            "get, list, watch, create, update, patch, delete, deletecollection": "to start runs, change what may be "
            "changed of them, and delete them",
        },
    },
    "disttest-view": {
        "disttests.disttest.dev": {"get, list, watch": "to look at runs"},
        "disttestseries.disttest.dev": {"get, list, watch": "to look at histories, which only the operator writes"},
    },
    "disttest-template-user": {
        "disttests.disttest.dev/template": {
            "use": "to name in a DistTest what the policy `disttest-authors` keeps for those who may create pods; no "
            "request has this resource",
        },
    },
}

# No such request is sent: the admission plugin OwnerReferencesPermissionEnforcement checks these rights.
ASKED_BY_ADMISSION = frozenset({"update disttests.disttest.dev/finalizers", "delete configmaps"})


Manifest = Mapping[str, Any]

BEGIN = "<!-- rights: made from manifests/rbac and tools/docs/permissions.py by `python -m tools.docs` -->"
END = "<!-- end of rights -->"
HEADING = "### "
MARK = "**admission** "
KINDS = frozenset({"Role", "ClusterRole"})


class RightsError(Exception):
    """Roles and reasons differ."""


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
    """The rights of a Role or ClusterRole. A wildcard is an error: no reason could be given for it."""
    found = set()
    for rule in role["rules"]:
        targets = [resource(name, group) for group in rule.get("apiGroups", ()) for name in rule.get("resources", ())]
        targets += rule.get("nonResourceURLs", ())
        names = rule.get("resourceNames", ("",))
        found |= {Right(target, verb, name) for target in targets for verb in rule["verbs"] for name in names}
    if wild := sorted(right.words for right in found if "*" in right.words):
        raise RightsError(f"role {role['metadata']['name']}: write what is meant by {', '.join(wild)}")
    return found


def of_roles(manifests: Sequence[Manifest]) -> dict[str, set[Right]]:
    """The rights of all roles, by name."""
    return {entry["metadata"]["name"]: of_role(entry) for entry in manifests if entry["kind"] in KINDS}


def tables(manifests: Sequence[Manifest]) -> str:
    """One table a role. Raises RightsError where a right has no reason, or a reason has no right."""
    roles = of_roles(manifests)
    if roles.keys() != REASONS.keys():
        raise RightsError(f"roles without reasons, or reasons without a role: {sorted(roles.keys() ^ REASONS.keys())}")
    return "\n".join(line for name in REASONS for line in _table(name, roles[name]))


def _table(name: str, granted: set[Right]) -> Iterator[str]:
    rows = list(_rows(name))
    reasoned = {right for rights, _ in rows for right in rights}
    if granted != reasoned:
        without = ", ".join(f"{right.words} of {name}" for right in sorted(granted - reasoned)) or "none"
        gone = ", ".join(f"{right.words} of {name}" for right in sorted(reasoned - granted)) or "none"
        raise RightsError(
            f"tools/docs/permissions.py: rights without a reason: {without}; reasons without a right: {gone}"
        )
    yield f"{HEADING}`{name}`"
    yield ""
    yield TITLES[name]
    yield ""
    yield "| resource | verbs | why |"
    yield "|---|---|---|"
    for rights, why in rows:
        first = rights[0]
        named = f" `{first.name}` only" if first.name else ""
        mark = MARK if first.words in ASKED_BY_ADMISSION else ""
        yield f"| `{first.resource}`{named} | {', '.join(right.verb for right in rights)} | {mark}{why} |"
    yield ""


def _rows(role: str) -> Iterator[tuple[list[Right], str]]:
    for key, reasons in REASONS[role].items():
        target, _, name = key.partition(" ")
        for verbs, why in reasons.items():
            yield [Right(target, verb, name) for verb in verbs.split(", ")], why


def page(text: str, manifests: Sequence[Manifest]) -> str:
    """The page with new tables between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RightsError(f"docs/security.md: the marks {BEGIN!r} and {END!r} are missing")
    return f"{before}{BEGIN}\n\n{tables(manifests)}\n{END}{after}"
