"""The environment variables of a container."""

from collections.abc import Mapping

from devcluster.kubeapi import Json
from devcluster.node import fields
from devcluster.node.objects import CONFIG_MAPS, SECRETS, MissingError, Objects

FROM = (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS))
KEYS = (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS))


async def build(
    pod: Json, container: Json, base: Mapping[str, str], known_by_node: Mapping[str, str], objects: Objects
) -> dict[str, str]:
    """Raises MissingError where a ConfigMap, Secret or key does not exist."""
    env = dict(base)
    for source in container.get("envFrom") or []:
        env.update(await _all_keys(source, objects))
    for variable in container.get("env") or []:
        source = variable.get("valueFrom")
        if not source:
            env[variable["name"]] = fields.expand(variable.get("value", ""), env)
        elif ref := source.get("fieldRef"):
            env[variable["name"]] = fields.field(pod, ref["fieldPath"], known_by_node)
        elif ref := source.get("resourceFieldRef"):
            env[variable["name"]] = fields.resource(pod["spec"]["containers"], container, ref)
        elif (value := await _one_key(source, objects)) is not None:
            env[variable["name"]] = value
    return env


async def _all_keys(source: Json, objects: Objects) -> dict[str, str]:
    prefix = source.get("prefix", "")
    for field, kind in FROM:
        if ref := source.get(field):
            data = await objects.data(kind, ref["name"], optional=ref.get("optional", False))
            return {prefix + key: value.decode() for key, value in data.items()}
    return {}


async def _one_key(source: Json, objects: Objects) -> str | None:
    for field, kind in KEYS:
        if ref := source.get(field):
            optional = ref.get("optional", False)
            data = await objects.data(kind, ref["name"], optional=optional)
            if ref["key"] in data:
                return data[ref["key"]].decode()
            if not optional:
                raise MissingError(f"couldn't find key {ref['key']} in {kind} {ref['name']!r}")
    return None
