"""Read DistTests and their pods."""

import contextlib
import difflib
from collections.abc import Callable, Sequence

from disttest_cli import fields
from disttest_cli.errors import UsageError
from disttest_cli.kube.client import Body, KubeClient
from disttest_operator.core.api import model, naming, schema
from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.api.resources import Kind

KINDS = ("disttest.disttest.dev", "disttests.disttest.dev", "disttests", "disttest", "dt")  # as kubectl prints them
NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"  # names of objects; excludes paths
INDEX = "batch.kubernetes.io/job-completion-index"


def bare_name(name: str) -> str:
    """Strip the kind from `disttest.disttest.dev/NAME`, the output of -o name."""
    kind, slash, bare = name.partition("/")
    return bare if slash and kind in KINDS else name


def find(server: KubeClient, namespace: str, name: str) -> Body:
    """The DistTest of that name. Raises UsageError with similar names if it does not exist."""
    name = bare_name(name)
    if not schema.matches(NAME, name):
        raise UsageError(
            f"{name!r} is not a valid name of a DistTest. To list DistTests, run `disttest list -n {namespace}`."
        )
    body = server.get(Kind.RUN, namespace, name)
    if body is not None:
        return body
    names: list[str] = []
    with contextlib.suppress(ApiServerError):
        names = [fields.name(body) for body in server.list(Kind.RUN, namespace)]
    advice = did_you_mean(name, names) or "To list all namespaces, run `disttest list -A`."
    raise UsageError(f"DistTest {name!r} does not exist in namespace {namespace}. {advice}")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    similar = difflib.get_close_matches(name, known, n=3)
    return f"Did you mean {', '.join(map(repr, similar))}?" if similar else ""


def pods(server: KubeClient, body: Body, attempt: int | None = None) -> list[Body]:
    """Pods of a run, or of one attempt, in the order of attempts and node indexes."""
    metadata = fields.metadata(body)
    selector = f"{naming.LABEL_UID}={metadata.get('uid')}"
    if attempt is not None:
        selector += f",{naming.LABEL_ATTEMPT}={attempt}"
    found = server.list(Kind.POD, fields.namespace(body), label_selector=selector)
    return sorted(found, key=lambda pod: (attempt_of(pod), node_index(pod), fields.name(pod)))


def attempt_of(pod: Body) -> int:
    return _whole(fields.mapping(fields.metadata(pod).get("labels")).get(naming.LABEL_ATTEMPT))


def node_index(pod: Body) -> int:
    metadata = fields.metadata(pod)
    marks = {**fields.mapping(metadata.get("labels")), **fields.mapping(metadata.get("annotations"))}
    return _whole(marks.get(INDEX))


def ranks_per_node(body: Body) -> int:
    return fields.count(model.ranks_per_node(fields.spec(body)))


def nodes(body: Body) -> int:
    return fields.count(fields.spec(body).get("nodes")) or 1


def backend(body: Body) -> str:
    return fields.text(model.backend(fields.spec(body)))


def if_allowed(ask: Callable[[], list[Body]]) -> tuple[list[Body], str]:
    """Return optional objects, or an empty list and the reason if the user may not read them."""
    try:
        return ask(), ""
    except RequestRefusedError as error:
        return [], str(error)


def _whole(value: object) -> int:
    digits = str(value)
    return int(digits) if digits.isascii() and digits.isdecimal() else 0
