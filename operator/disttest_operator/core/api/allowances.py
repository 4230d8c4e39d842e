"""Privileges beyond PodSecurity `restricted`: which ones a DistTest needs, and which ones the administrator allows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from disttest_operator.core.api import schema, spec_schema
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.api.template import Template

PLAIN = ("host-network", "host-ipc", "host-pid", "privileged", "root")
CAPABILITY, HOST_PATH, SERVICE_ACCOUNT = "capability", "host-path", "service-account"
VALUES = {
    CAPABILITY: spec_schema.CAPABILITY,
    HOST_PATH: spec_schema.PATH,
    SERVICE_ACCOUNT: schema.object_name("a ServiceAccount"),
}
KNOWN = (*PLAIN, f"{CAPABILITY}:NAME", f"{HOST_PATH}:/PREFIX", f"{SERVICE_ACCOUNT}:NAME")
DEFAULT_ACCOUNT = "default"  # of every pod that names none
ITEM = re.compile(r"(?:(?P<namespace>[^/:]*)/)?(?P<kind>[^/:]*)(?::(?P<value>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """A privilege, in one namespace or in all; `value` is empty for the kinds in PLAIN."""

    kind: str
    value: str = ""
    namespace: str = ""

    def covers(self, wanted: "Allowance") -> bool:
        if self.kind != wanted.kind or self.namespace not in ("", wanted.namespace):
            return False
        if self.kind == HOST_PATH:
            prefix = _parts(self.value)
            return _parts(wanted.value)[: len(prefix)] == prefix
        return self.value == wanted.value

    @property
    def item(self) -> str:
        """The text that `parse` reads."""
        what = f"{self.kind}:{self.value}" if self.value else self.kind
        return f"{self.namespace}/{what}" if self.namespace else what


def parse(item: str, source: str) -> Allowance:
    """Read [NAMESPACE/]WHAT. Raises ValueError with a message that begins with `source`."""
    found = ITEM.fullmatch(item)
    kind = found["kind"] if found else ""
    value = (found["value"] or "") if found else ""
    if not found or (kind not in VALUES and (kind not in PLAIN or found["value"] is not None)):
        raise ValueError(f"{source}: must be [NAMESPACE/]WHAT, where WHAT is one of {', '.join(KNOWN)}, not {item!r}")
    namespace = found["namespace"]
    if namespace is not None and (len(namespace) > 63 or not schema.matches(schema.DNS_LABEL, namespace)):
        raise ValueError(f"{source}: {item!r}: must be the name of a namespace before the '/'; or remove both")
    if kind == HOST_PATH:
        value = value.rstrip("/")
    if kind in VALUES:
        for problem in schema.check(VALUES[kind], value, f"{source}: {item!r}"):
            raise ValueError(problem)
    return Allowance(kind=kind, value=value, namespace=namespace or "")


def refusals(test: DistTest, allowed: tuple[Allowance, ...]) -> tuple[str, ...]:
    """A message for each allowance that a DistTest needs and does not have."""
    return tuple(
        f"{path}: the operator does not allow this; remove it, or ask an administrator for"
        f" --allow={need.item} (docs/operating/security.md)"
        for path, need in needs(test)
        if not any(one.covers(need) for one in allowed)
    )


def needs(test: DistTest) -> Iterator[tuple[str, Allowance]]:
    """Yield the allowances that a DistTest needs, each with the path of the field that needs it."""
    for field, kind, value in _privileges(test.spec.template):
        yield f"spec.template.spec.{field}", Allowance(kind=kind, value=value, namespace=test.namespace)


def _privileges(template: Template) -> Iterator[tuple[str, str, str]]:
    """Yield the path of a field below spec.template.spec, the kind and the value of its allowance."""
    security = template.security_context
    plain = {
        "hostNetwork": ("host-network", template.host_network),
        "hostIPC": ("host-ipc", template.host_ipc),
        "hostPID": ("host-pid", template.host_pid),
        "securityContext.privileged": ("privileged", security.privileged),
        "securityContext.runAsUser": ("root", security.run_as_user == 0),
    }
    for path, (kind, is_asked) in plain.items():
        if is_asked:
            yield path, kind, ""
    for name in security.capabilities:
        yield "securityContext.capabilities.add", CAPABILITY, name
    for index, volume in enumerate(template.volumes):
        if "hostPath" in volume:
            yield f"volumes[{index}].hostPath.path", HOST_PATH, volume["hostPath"]["path"]
    if template.service_account_name not in ("", DEFAULT_ACCOUNT):
        yield "serviceAccountName", SERVICE_ACCOUNT, template.service_account_name


def _parts(path: str) -> list[str]:
    """The components of a path: /data is not a parent of /database."""
    return [part for part in path.split("/") if part]
