"""Objects as kubectl prints them with -o json, yaml and name."""

from collections.abc import Sequence
from typing import Any

from disttest_cli.formats import documents
from disttest_cli.kube import fields
from disttest_cli.kube.client import Body
from disttest_contract.text import escaping
from disttest_operator.core.api.model import API_VERSION, GROUP

KIND = "DistTest"
NAME = f"disttest.{GROUP}"


def document(value: Any, output: str) -> str:
    """One document, with an end of line."""
    return documents.as_json(value, indent=4) if output == "json" else documents.as_yaml(value, sort_keys=True)


def one(body: Body, output: str) -> str:
    return f"{NAME}/{escaping.line(fields.name(body))}\n" if output == "name" else document(_shown(body), output)


def several(bodies: Sequence[Body], output: str) -> str:
    """A List, or a name a line."""
    if output == "name":
        return "".join(one(body, output) for body in bodies)
    items = [_shown(body) for body in bodies]
    return document({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}, output)


def _shown(body: Body) -> Body:
    """As kubectl does: who wrote which field is nobody's concern."""
    metadata = {key: value for key, value in fields.metadata(body).items() if key != "managedFields"}
    return {"apiVersion": API_VERSION, "kind": KIND, **body, "metadata": metadata}
