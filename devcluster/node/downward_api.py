"""The downward API: fields of a pod and resources of a container as text, and $(NAME) in commands and values."""

import re
from collections.abc import Mapping

from devcluster.controlplane.kubeapi import Json
from devcluster.node import resources

SECTION_KEY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")


def field(pod: Json, path: str, known_by_node: Mapping[str, str]) -> str:
    """`known_by_node` has what is not in the manifest yet: status.podIP, status.hostIP."""
    if path in known_by_node:
        return known_by_node[path]
    meta = pod["metadata"]
    if match := SECTION_KEY.fullmatch(path):
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    section, _, key = path.partition(".")
    if key in ("labels", "annotations"):
        return "\n".join(f'{k}="{v}"' for k, v in sorted((meta.get(key) or {}).items()))
    return str(pod.get(section, {}).get(key, ""))


def resource(containers: list[Json], own: Json, ref: Json) -> str:
    """Such as limits.memory; in whole units of the divisor, rounded up."""
    name = ref.get("containerName")
    container = next((c for c in containers if c["name"] == name), own)
    kind, _, what = ref["resource"].partition(".")
    amount = resources.parse_quantity((container.get("resources") or {}).get(kind, {}).get(what, "0"))
    divisor = resources.parse_quantity(ref.get("divisor") or "1") or 1
    return str(-(-amount // divisor))


def expand(text: str, env: Mapping[str, str]) -> str:
    """$(NAME) becomes its value; an unknown name stays, $$ is one dollar."""
    return REFERENCE.sub(lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), text)
