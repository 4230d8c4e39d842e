"""What a process node cannot do. A pod that needs it fails and says so; nothing is left out in silence."""

from devcluster.kubeapi import Json

REASON = "NotEmulated"
VOLUMES = frozenset({
    "emptyDir", "configMap", "secret", "downwardAPI", "projected", "hostPath", "persistentVolumeClaim",
})  # fmt: skip
PROJECTED = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
CHECKS = frozenset({"httpGet", "tcpSocket"})
HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")


def of_pod(spec: Json) -> list[str]:
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
