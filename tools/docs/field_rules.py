"""Generate core/api/spec_schema.py from the CustomResourceDefinition, so that bounds and messages are written once.

Rules for a single field are generated completely. Of CEL rules over several fields only the messages are generated:
core/api/cross_field_rules.py has their conditions.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from disttest_operator.core.api import schema
from disttest_operator.core.api.schema import Boolean, ListOf, MapOf, Object, Quantity, Rule, Text, Whole

HEAD = '''"""Rules for every field of a DistTest's spec.

Generated from manifests/crd/disttests.yaml by `python -m tools.docs`: change the CRD, not this file.
"""
# ruff: noqa: E501  # messages can be searched for if each is in one line

from disttest_operator.core.api.schema import Boolean, ListOf, MapOf, Object, Quantity, Text, Whole, object_name
'''
# The constants of the module in their order, with a path of each. Rules equal to one of them are written as its name.
NAMED = {
    "NAME": "suites[].name",
    "CONFIG_MAP": "suites[].configMap",
    "VARIABLES": "suites[].env",
    "SUITE": "suites[]",
    "TIMEOUTS": "timeouts",
    "THRESHOLD": "thresholds[]",
    "LABEL_VALUE": "template.spec.nodeSelector{}",
    "LABELS": "template.metadata.labels",
    "ANNOTATIONS": "template.metadata.annotations",
    "TOLERATION": "template.spec.tolerations[]",
    "AMOUNTS": "template.spec.resources.limits",
    "CAPABILITY": "template.spec.securityContext.capabilities.add[]",
    "SECURITY_CONTEXT": "template.spec.securityContext",
    "PATH": "template.spec.volumes[].hostPath.path",
    "VOLUME": "template.spec.volumes[]",
    "MOUNT": "template.spec.volumeMounts[]",
    "POD": "template.spec",
    "SPEC": "",
}
# By path: fields that the CRD does not have but users are likely to try.
NOT_YET: Mapping[str, tuple[str, ...]] = {
    "": ("files", "select", "resourceClaims"),
    "suites[]": ("retries", "thresholds", "timeouts"),
    "suites[].env[]": ("valueFrom",),
    "env[]": ("valueFrom",),
    "template.spec": ("affinity", "resourceClaims"),
    "template.spec.resources": ("claims",),
}
OURS: Mapping[str, tuple[str, ...]] = {
    "template.spec": ("containers", "initContainers", "restartPolicy", "hostname", "subdomain"),
    "template.spec.securityContext": (
        *("allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsNonRoot", "seccompProfile", "fsGroup"),
    ),
    "template.spec.securityContext.capabilities": ("drop",),
}

# The forms of CEL rules for single fields.
MATCHES = re.compile(r"self\.matches\('(.*)'\)")
KEY_MATCHES = re.compile(r"self\.all\(key, key\.matches\('(.*)'\)\)")
RESERVED = re.compile(r"self\.all\(key, (!\(key in \[[^]]*\]\) && )?(!key\.startsWith\('[^']*'\)( && )?)+\)")
EQUAL = r"(?:y\.(\w+) == x\.\1|has\(y\.(\w+)\) == has\(x\.\2\) && \(!has\(x\.\2\) \|\| y\.\2 == x\.\2\))"
UNIQUE = re.compile(rf"self\.all\(x, self\.exists_one\(y, (?:{EQUAL}(?: && )?)+\)\)")
QUANTITY_PATTERN = schema.QUANTITY.replace("\\", "\\\\")
QUANTITY = re.compile(re.escape(f"type(self) == int ? self >= 0 : string(self).matches('{QUANTITY_PATTERN}')"))
OBJECT_NAME = re.compile("must be the name of (.*?): .*")
VALIDATIONS = "x-kubernetes-validations"
ROW_CHARACTERS = 96

Schema = Mapping[str, Any]


def module(definition: Mapping[str, Any], root: Path) -> str:
    """Return the source of the module, from the definition of DistTest. `root` has the settings of ruff."""
    [version] = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    names: list[tuple[Rule, str]] = []
    text = HEAD
    rules = read(spec, "")
    for name, path in NAMED.items():
        rule = _at(rules, path)
        text += f"\n{name} = {_call(rule, names)}\n"
        names.append((rule, name))
    messages: dict[str, tuple[str, ...]] = {}
    for path, message in _messages(spec, ""):
        messages[path] = (*messages.get(path, ()), message)
    text += f"\n# Messages of the CEL rules over several fields, by path.\nMESSAGES = {_source(messages, names)}\n"
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", "spec_schema.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=root).stdout


def _at(rule: Any, path: str) -> Any:
    """The rule at a path below `rule`."""
    for part in re.findall(r"\w+|\[\]|\{\}", path):
        rule = rule.item if part == "[]" else rule.value if part == "{}" else rule.fields[part]
    return rule


def _messages(node: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and message of each CEL rule over several fields, except those that compare with the old object."""
    for rule in node.get(VALIDATIONS, ()):
        forms = (MATCHES, KEY_MATCHES, RESERVED, UNIQUE, QUANTITY)
        if "oldSelf" not in rule["rule"] and not any(form.fullmatch(rule["rule"]) for form in forms):
            yield path, rule["message"]
    for name, entry in node.get("properties", {}).items():
        yield from _messages(entry, f"{path}.{name}".lstrip("."))
    for name, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if name in node:
            yield from _messages(node[name], path + mark)


def read(node: Schema, path: str) -> Rule:
    """Read the rule of a field from its OpenAPI schema and CEL rules.

    `path` is below spec; entries of a list are [], values of a map {}.
    """
    match node.get("type"):
        case "array":
            unique, advice = _validation(node, UNIQUE)
            return ListOf(
                item=read(node["items"], f"{path}[]"),
                max_items=node["maxItems"],
                min_items=node.get("minItems", 0),
                unique=tuple(re.findall(r"y\.(\w+) == x", unique)),
                advice=advice,
            )
        case "object" if "additionalProperties" in node:
            pattern, key_advice = _validation(node, KEY_MATCHES)
            reserved, reserved_advice = _validation(node, RESERVED)
            return MapOf(
                value=read(node["additionalProperties"], f"{path}{{}}"),
                max_properties=node["maxProperties"],
                key_pattern=_pattern(pattern),
                key_advice=key_advice,
                reserved=tuple(re.findall(r"[\[ ]'([^']*)'", reserved)),
                reserved_prefixes=tuple(re.findall(r"\('([^']*)'", reserved)),
                reserved_advice=reserved_advice,
            )
        case "object":
            return Object(
                required=tuple(node.get("required", ())),
                fields={name: read(entry, f"{path}.{name}".lstrip(".")) for name, entry in node["properties"].items()},
                not_yet=NOT_YET.get(path, ()),
                ours=OURS.get(path, ()),
                has_default="default" in node,
            )
        case _:
            return _scalar(node, path)


def _scalar(node: Schema, path: str) -> Rule:
    if node.get("x-kubernetes-int-or-string"):
        return Quantity()
    match node["type"]:
        case "string":
            pattern, advice = _validation(node, MATCHES)
            return Text(
                max_length=node["maxLength"],
                min_length=node.get("minLength", 0),
                pattern=_pattern(pattern),
                advice=advice,
                choices=tuple(node.get("enum", ())),
                default=node.get("default"),
            )
        case "integer":
            return Whole(minimum=node["minimum"], maximum=node["maximum"], default=node.get("default"))
        case "boolean":
            return Boolean(default=node.get("default"))
        case other:
            raise ValueError(f"{path}: no rule for the type {other}")


def _validation(node: Schema, form: re.Pattern[str]) -> tuple[str, str]:
    """The CEL rule of that form and its message; empty if there is none."""
    rules = ((rule["rule"], rule["message"]) for rule in node.get(VALIDATIONS, ()))
    return next((rule for rule in rules if form.fullmatch(rule[0])), ("", ""))


def _pattern(rule: str) -> str:
    """The string in a CEL rule, in which a backslash is escaped."""
    return rule.partition("'")[2].rpartition("'")[0].replace("\\\\", "\\")


def _source(value: Any, names: Sequence[tuple[Rule, str]]) -> str:
    """Format `value` as Python source. A rule that is equal to one of `names` becomes that name."""
    match value:
        case bool():
            return repr(value)
        case int():
            return f"{value:_}"
        case str():
            return _string(value)
        case tuple():
            return _tuple([_string(entry) for entry in value])
        case Mapping():
            return f"{{{', '.join(f'{_string(key)}: {_source(entry, names)}' for key, entry in value.items())}}}"
        case _:
            return next((name for rule, name in names if rule == value), "") or _call(value, names)


def _call(rule: Rule, names: Sequence[tuple[Rule, str]]) -> str:
    """Format the call that creates the rule, without the arguments that are defaults."""
    if (
        isinstance(rule, Text)
        and (found := OBJECT_NAME.fullmatch(rule.advice))
        and rule == schema.object_name(found[1])
    ):
        return f"object_name({_string(found[1])})"
    arguments = []
    for one in fields(rule):
        value = getattr(rule, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if value != default:
            arguments.append(f"{one.name}={_source(value, names)}")
    return f"{type(rule).__name__}({', '.join(arguments)})"


def _string(text: str) -> str:
    return f'r"{text}"' if "\\" in text else repr(text)


def _tuple(entries: Sequence[str]) -> str:
    """Format a tuple; one of many short entries in rows, which ruff would otherwise format with one entry per line."""
    if len(entries) == 1:
        return f"({entries[0]},)"
    rows: list[list[str]] = [[]]
    for entry in entries:
        if rows[-1] and len(", ".join([*rows[-1], entry])) > ROW_CHARACTERS:
            rows.append([])
        rows[-1].append(entry)
    if len(rows) in (1, len(entries)):
        return f"({', '.join(entries)})"
    return f"({', '.join(f'*{_tuple(row)}' for row in rows)})"
