"""JSON and YAML that say what they hold, and that nothing obeys: no terminal, and no CI system that prints them."""

import functools
import json
import math
from typing import TYPE_CHECKING, Any

from disttest_cli import lazy

if TYPE_CHECKING:
    import yaml
else:
    yaml = lazy.module("yaml")

HASHES = "##"  # with a word and a bracket behind them: a command of Azure, GitHub or TeamCity, anywhere in a line


def as_json(value: Any, *, indent: int) -> str:
    """ASCII, with an end of line. Hashes stand in strings only."""
    text = json.dumps(value, indent=indent, default=str)
    return text.replace(HASHES, r"#\u0023").replace("\x7f", r"\u007f") + "\n"


def as_yaml(value: Any, *, sort_keys: bool) -> str:
    """ASCII, a line for each value: what is folded could go on with a line that begins as a command does."""
    text = yaml.dump(value, Dumper=_dumper(), sort_keys=sort_keys, default_flow_style=False, width=math.inf)
    return str(text).replace(HASHES, r"#\x23")


@functools.cache
def _dumper() -> "type[yaml.SafeDumper]":
    """As usual, but what has several lines or hashes in double quotes, where all can be escaped."""

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(str, _text)
    return Dumper


def _text(dumper: "yaml.SafeDumper", text: str) -> "yaml.ScalarNode":
    style = '"' if "\n" in text or HASHES in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
