"""JSON and YAML without commands for terminals and CI systems, and objects like kubectl prints them."""

import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from disttest_cli import fields
from disttest_cli.lazy import yaml
from disttest_contract.text import escaping
from disttest_operator.core.api.model import API_VERSION, GROUP

KIND = "DistTest"
PRINTED_KIND = f"disttest.{GROUP}"
HASHES = "##"  # followed by a word and a bracket: a command of Azure, GitHub or TeamCity, anywhere in a line


def as_json(value: Any, *, indent: int) -> str:
    """ASCII, with a final newline. Hashes occur in strings only."""
    text = json.dumps(value, indent=indent, default=str)
    return text.replace(HASHES, r"#\u0023").replace("\x7f", r"\u007f") + "\n"


def as_yaml(value: Any, *, sort_keys: bool) -> str:
    """ASCII and unfolded: the next line of a folded value could begin like a command."""
    text = yaml.dump(value, Dumper=_dumper(), sort_keys=sort_keys, default_flow_style=False, width=math.inf)
    return str(text).replace(HASHES, r"#\x23")


@functools.cache
def _dumper() -> "type[yaml.SafeDumper]":
    """Writes strings with newlines or hashes in double quotes, where all can be escaped."""

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(str, _text)
    return Dumper


def _text(dumper: "yaml.SafeDumper", text: str) -> "yaml.ScalarNode":
    style = '"' if "\n" in text or HASHES in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def document(value: Any, output: str) -> str:
    """One document with a final newline; `output` is json or yaml."""
    return as_json(value, indent=4) if output == "json" else as_yaml(value, sort_keys=True)


def one(body: Mapping[str, Any], output: str) -> str:
    return (
        f"{PRINTED_KIND}/{escaping.line(fields.name(body))}\n" if output == "name" else document(_shown(body), output)
    )


def several(bodies: Sequence[Mapping[str, Any]], output: str) -> str:
    if output == "name":
        return "".join(one(body, output) for body in bodies)
    items = [_shown(body) for body in bodies]
    return document({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}, output)


def _shown(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = {key: value for key, value in fields.metadata(body).items() if key != "managedFields"}
    return {"apiVersion": API_VERSION, "kind": KIND, **body, "metadata": metadata}
