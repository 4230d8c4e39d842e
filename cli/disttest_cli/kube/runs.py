"""Read DistTests and their pods."""

import contextlib
import difflib
from collections.abc import Callable

from disttest_cli import fields
from disttest_cli.errors import UsageError
from disttest_cli.kube.api_errors import ApiServerError, RequestRefusedError
from disttest_cli.kube.client import Body, Cluster
from disttest_operator.core.api import naming, schema
from disttest_operator.core.api.model import RANKS_WITHOUT_GPUS
from disttest_operator.core.api.resources import Kind

KINDS = (
    "disttest.disttest.dev",
    "disttests.disttest.dev",
    "disttests",
    "disttest",
    "dt",
)  # as kubectl prints them
NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"  # names of objects; excludes paths
GPUS_PER_NODE = 8  # if unset
INDEX = "batch.kubernetes.io/job-completion-index"


def bare_name(name: str) -> str:
    """Strip the kind from `disttest.disttest.dev/NAME`, the output of -o name."""
    kind, slash, bare = name.partition("/")
    return bare if slash and kind in KINDS else name


def find(server: Cluster, namespace: str, name: str) -> Body:
    """The DistTest of that name. Raises UsageError with similar names if it does not exist."""
    name = bare_name(name)
    if not schema.matches(NAME, name):
        raise UsageError(f"{name!r} is no name of a DistTest: `disttest list -n {namespace}` shows them")
    body = server.get(Kind.RUN, namespace, name)
    if body is not None:
        return body
    with contextlib.suppress(ApiServerError):
        names = [fields.name(body) for body in server.list(Kind.RUN, namespace)]
        if similar := difflib.get_close_matches(name, names, n=3):
            raise UsageError(
                f"no DistTest {name!r} in namespace {namespace}; did you mean {', '.join(map(repr, similar))}?"
            )
    raise UsageError(f"no DistTest {name!r} in namespace {namespace}: `disttest list -A` shows those of all namespaces")


def pods(server: Cluster, body: Body, attempt: int | None = None) -> list[Body]:
    """Pods of a run, or of one attempt, in the order of attempts and node indexes."""
    metadata = fields.metadata(body)
    selector = f"{naming.LABEL_UID}={metadata.get('uid')}"
    if attempt is not None:
        selector += f",{naming.LABEL_ATTEMPT}={attempt}"
    found = server.list(Kind.POD, fields.text(metadata.get("namespace")), label_selector=selector)
    return sorted(found, key=lambda pod: (attempt_of(pod), node_index(pod), fields.name(pod)))


def attempt_of(pod: Body) -> int:
    return _whole(fields.mapping(fields.metadata(pod).get("labels")).get(naming.LABEL_ATTEMPT))


def node_index(pod: Body) -> int:
    metadata = fields.metadata(pod)
    marks = {**fields.mapping(metadata.get("labels")), **fields.mapping(metadata.get("annotations"))}
    return _whole(marks.get(INDEX))


def ranks_per_node(body: Body) -> int:
    spec = fields.spec(body)
    gpus = spec.get("gpusPerNode")
    given = fields.count(spec.get("ranksPerNode")) or (GPUS_PER_NODE if gpus is None else fields.count(gpus))
    return given or RANKS_WITHOUT_GPUS


def nodes(body: Body) -> int:
    return fields.count(fields.spec(body).get("nodes")) or 1


def backend(body: Body) -> str:
    spec = fields.spec(body)
    return fields.text(spec.get("backend")) or ("gloo" if spec.get("gpusPerNode") == 0 else "nccl")


def if_allowed(ask: Callable[[], list[Body]]) -> tuple[list[Body], str]:
    """Return optional objects, or an empty list and the reason if the user may not read them."""
    try:
        return ask(), ""
    except RequestRefusedError as error:
        return [], str(error)


def _whole(value: object) -> int:
    digits = str(value)
    return int(digits) if digits.isascii() and digits.isdecimal() else 0
