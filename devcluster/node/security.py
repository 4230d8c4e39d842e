"""What a securityContext changes for a process container: capabilities, new privileges, the root directory."""

from dataclasses import dataclass

from devcluster.controlplane.kubeapi import Json

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


REASON = "NotEmulated"
VOLUMES = frozenset({
    "emptyDir", "configMap", "secret", "downwardAPI", "projected", "hostPath", "persistentVolumeClaim",
})  # fmt: skip
PROJECTED = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
CHECKS = frozenset({"httpGet", "tcpSocket"})
HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")


def refusals_of_pod(spec: Json) -> list[str]:
    """Each thing that this pod asks for in vain."""
    found = [field for field in HOST_NAMESPACES if spec.get(field)]
    found += [f"resource claim {claim['name']!r}" for claim in spec.get("resourceClaims") or []]
    for volume in spec.get("volumes") or []:
        found += [f"volume {volume['name']!r} of kind {kind}" for kind in volume.keys() - {"name"} - VOLUMES]
        for source in (volume.get("projected") or {}).get("sources") or []:
            found += [f"projected volume source {kind}" for kind in source.keys() - PROJECTED]
    for container in spec.get("initContainers") or []:
        found += [f"sidecar {container['name']!r}"] if container.get("restartPolicy") else []
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        found += [f"container {container['name']!r}: {what}" for what in _of_container(container)]
    return found


def _of_container(container: Json) -> list[str]:
    found = [f"{probe} other than {' and '.join(sorted(CHECKS))}" for probe in PROBES if _is_odd(container.get(probe))]
    found += ["lifecycle hooks"] if container.get("lifecycle") else []
    found += ["stdin or tty"] if container.get("stdin") or container.get("tty") else []
    found += ["volumeDevices"] if container.get("volumeDevices") else []
    found += (
        ["no command: images here have no entrypoint"]
        if not (container.get("command") or container.get("args"))
        else []
    )
    found += ["subPathExpr"] if any("subPathExpr" in mount for mount in container.get("volumeMounts") or []) else []
    return found


def _is_odd(probe: Json | None) -> bool:
    return bool(probe) and not CHECKS & (probe or {}).keys()
