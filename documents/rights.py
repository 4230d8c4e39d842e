"""The chapter "Rights" of docs/security.md: what the roles of the manifests allow, verb by verb, with why. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from documents.reasons import ASKED_BY_ADMISSION, REASONS, TITLES

Manifest = Mapping[str, Any]

BEGIN = "<!-- rights: made from manifests/rbac and documents/reasons.py by `python -m documents` -->"
END = "<!-- end of rights -->"
HEADING = "### "
MARK = "**admission** "
KINDS = frozenset({"Role", "ClusterRole"})


class RightsError(Exception):
    """Roles and reasons do not fit."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource. A path of the API server that is no resource begins with a slash."""

    resource: str
    """With group and subresource, as kubectl writes it: `disttests.disttest.dev/status`."""
    verb: str
    name: str = ""
    """Of the only object that it is good for."""

    @property
    def words(self) -> str:
        return f"{self.verb} {self.resource}" + (f" {self.name!r}" if self.name else "")


def resource(name: str, group: str) -> str:
    """`pods/log`, or `disttests.disttest.dev/status`."""
    plural, slash, subresource = name.partition("/")
    return f"{plural}{'.' if group else ''}{group}{slash}{subresource}"


def of_role(role: Manifest) -> set[Right]:
    """What a Role or ClusterRole allows. A wildcard is an error: nobody could say what it is for."""
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
    """By the names of the roles among them."""
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
        raise RightsError(f"documents/reasons.py: rights without a reason: {without}; reasons without a right: {gone}")
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
    """The same page, with the tables between the marks as the manifests have it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RightsError(f"docs/security.md: the marks {BEGIN!r} and {END!r} are missing")
    return f"{before}{BEGIN}\n\n{tables(manifests)}\n{END}{after}"


@dataclass(frozen=True, slots=True)
class Row:
    """A right as it stands on the page."""

    role: str
    right: Right
    is_asked_by_admission: bool


def read(text: str) -> list[Row]:
    """Back from the page to the rights that it tells of."""
    rows, role = [], ""
    for line in text.partition(BEGIN)[2].partition(END)[0].splitlines():
        if line.startswith(HEADING):
            role = line.removeprefix(HEADING).strip("`")
        elif line.startswith("| `"):
            target, verbs, why = (cell.strip() for cell in line.strip("|").split("|", 2))
            _, resource_, *named = target.split("`")
            name = named[1] if len(named) > 1 else ""
            rows += [Row(role, Right(resource_, verb, name), why.startswith(MARK)) for verb in verbs.split(", ")]
    return rows
