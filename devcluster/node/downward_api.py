"""Text that a container gets from its pod: the downward API, quantities, and $(NAME) in commands and values."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from devcluster.controlplane.kubeapi import Json

SECTION_KEY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")
FACTORS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate(["n", "u", "m", "", *"kMGTPE"], start=-3)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}


def value(pod: Json, container: Json, source: Json, known_by_node: Mapping[str, str]) -> str:
    """Read the field of the pod, or the resource of the container, to which the source refers."""
    if ref := source.get("fieldRef"):
        return field(pod, ref["fieldPath"], known_by_node)
    return resource(pod["spec"]["containers"], container, source["resourceFieldRef"])


def field(pod: Json, path: str, known_by_node: Mapping[str, str]) -> str:
    """Read a field; `known_by_node` has those that are not in the manifest yet: status.podIP, status.hostIP."""
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
    """Read a resource such as limits.memory, in whole units of the divisor, rounded up."""
    name = ref.get("containerName")
    container = next((c for c in containers if c["name"] == name), own)
    kind, _, what = ref["resource"].partition(".")
    amount = parse_quantity((container.get("resources") or {}).get(kind, {}).get(what, "0"))
    divisor = parse_quantity(ref.get("divisor") or "1") or 1
    return str(-(-amount // divisor))


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace $(NAME) by its value; an unknown name stays, and $$ becomes one dollar."""
    return REFERENCE.sub(lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), text)


def parse_quantity(text: str) -> int:
    """Round up to a whole number, as the downward API does; raise ValueError for what is no quantity."""
    found = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)", text)
    if found is None or found[2] not in FACTORS:
        raise ValueError(f"{text!r} is not a supported quantity")
    return math.ceil(Decimal(found[1]) * FACTORS[found[2]])
