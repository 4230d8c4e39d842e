"""What a securityContext changes for a process container: capabilities, new privileges, the root directory."""

from dataclasses import dataclass

from devcluster.kubeapi import Json

# Numbers of linux/capability.h. The first ones are what container runtimes give a container by default.
DEFAULT = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "MKNOD": 27,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}
KNOWN = {
    **DEFAULT,
    "NET_ADMIN": 12,
    "IPC_LOCK": 14,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_NICE": 23,
    "SYS_RESOURCE": 24,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    capabilities: tuple[int, ...] | None  # None: all
    new_privileges: bool
    read_only_root: bool


def parse(container: Json) -> Security:
    context = container.get("securityContext") or {}
    return Security(
        capabilities=None if context.get("privileged") else _capabilities(context.get("capabilities") or {}),
        new_privileges=context.get("allowPrivilegeEscalation", True),
        read_only_root=context.get("readOnlyRootFilesystem", False),
    )


def _capabilities(asked: Json) -> tuple[int, ...]:
    dropped = asked.get("drop") or []
    kept = set() if "ALL" in dropped else set(DEFAULT) - set(dropped)
    added = asked.get("add") or []
    kept |= set(KNOWN) if "ALL" in added else set(added)
    return tuple(sorted(KNOWN[name] for name in kept if name in KNOWN))
