"""What the operator asks of a cluster, whoever answers. Objects are plain dicts, as Kubernetes writes them.

ClusterError                 the API server could not be asked, or would not answer now: try again
├── ConflictError            somebody was faster: look again
├── ExistsError              an object of the name is there
└── RefusedError             the request itself is refused: the same request will be refused again
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from disttest_operator.core.api.model import API_VERSION, Manifest
from disttest_operator.core.observed.objects import Body

Page = tuple[list[Body], int]  # objects of a list, and the resourceVersion at which the whole list was read


class Kind(Enum):
    """API version and resource."""

    RUN = (API_VERSION, "disttests")
    SERIES = (API_VERSION, "disttestseries")
    JOB = ("batch/v1", "jobs")
    CRON_JOB = ("batch/v1", "cronjobs")
    POD = ("v1", "pods")
    SERVICE = ("v1", "services")
    CONFIG_MAP = ("v1", "configmaps")
    SERVICE_ACCOUNT = ("v1", "serviceaccounts")
    CLAIM = ("v1", "persistentvolumeclaims")
    NODE = ("v1", "nodes")
    CORE_EVENT = ("v1", "events")
    EVENT = ("events.k8s.io/v1", "events")
    LEASE = ("coordination.k8s.io/v1", "leases")
    TOKEN_REVIEW = ("authentication.k8s.io/v1", "tokenreviews")
    ACCESS_REVIEW = ("authorization.k8s.io/v1", "subjectaccessreviews")

    @property
    def api_version(self) -> str:
        return self.value[0]

    @property
    def resource(self) -> str:
        return self.value[1]

    def path(self, namespace: str = "", name: str = "") -> str:
        """Of all objects, of those of a namespace, or of one."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{place}/{self.resource}" + (f"/{name}" if name else "")


class LedgerWrite(Enum):
    """What a write of a ledger came to."""

    SUCCESS = "success"
    CONFLICT = "conflict"  # somebody was faster: tried again at once
    REFUSED = "refused"  # it will be refused again: runs of the series stay without a verdict
    ERROR = "error"


class Transport(Enum):
    """The ways of a report to the operator."""

    LOG = "log"
    CONFIG_MAP = "configmap"


class RequestCounter(Protocol):
    """Who is told of what happens, for /metrics."""

    def count_ledger_write(self, result: LedgerWrite) -> None: ...

    def count_report(self, transport: Transport, outcome: str) -> None:
        """A report was asked for: found, missing, invalid or unreadable."""

    def count_progress(self) -> None:
        """Of a run, written into its status."""

    def note_followed(self, logs: int) -> None: ...


class Uncounted:
    """Tells nobody."""

    def count_ledger_write(self, result: LedgerWrite) -> None: ...

    def count_report(self, transport: Transport, outcome: str) -> None: ...

    def count_progress(self) -> None: ...

    def note_followed(self, logs: int) -> None: ...


class ClusterError(Exception):
    """A request failed; the message names it."""


class ConflictError(ClusterError):
    """The object is not as it was when it was read."""


class ExistsError(ClusterError):
    """There is an object of this name."""


class RefusedError(ClusterError):
    """By admission, quota, validation or RBAC."""


class Cluster(Protocol):
    """Every call has a deadline and raises ClusterError.

    `gap` is set when a watch had to begin anew: what happened before that it does not tell, a list does.
    """

    gap: asyncio.Event

    @property
    def server_time(self) -> datetime | None:
        """What the API server's clock said when it last answered a request of ours."""

    async def get(self, kind: Kind, namespace: str, name: str, *, only_metadata: bool = False) -> Body | None:
        """None: there is none."""

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> tuple[list[Body], int]:
        """The objects, and the resourceVersion at which they were read."""

    def pages(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", only_metadata: bool = False
    ) -> AsyncIterator[Page]:
        """The same list in parts that can be forgotten one after the other; all are of one resourceVersion."""

    async def create(self, kind: Kind, manifest: Manifest) -> Body:
        """The answer has metadata at least."""

    async def replace(self, kind: Kind, manifest: Manifest) -> Body:
        """Guarded by the manifest's own resourceVersion."""

    async def patch_status(self, kind: Kind, body_meta: Mapping[str, Any], status: Mapping[str, Any]) -> Body | None:
        """Guarded by uid and resourceVersion of `body_meta`. None: the object is gone."""

    async def patch_owners(self, kind: Kind, body_meta: Mapping[str, Any], owners: Sequence[Manifest]) -> None:
        """Guarded in the same way; the object may be gone."""

    async def patch_labels(self, kind: Kind, name: str, labels: Mapping[str, str | None]) -> None:
        """Of an object without a namespace, which may be gone. None takes a label off."""

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str, version: str = "") -> None:
        """Only this very object, and as it was then; its dependants follow in the background. It may be gone already.

        ConflictError: there is an object of the name, but not this one in this version.
        """

    async def log(self, namespace: str, pod: str, *, limit_bytes: int) -> bytes | None:
        """The log of the gang's container, from its beginning. None: there is no such pod any more."""

    def follow_log(
        self, namespace: str, pod: str, *, prefix: str, tail_lines: int, limit_bytes: int
    ) -> AsyncGenerator[str, None]:
        """Lines of that log that begin so, as they come; first those among its last ones. Longer ones are left out.

        It ends with the container, after `limit_bytes`, and when nothing has come for long.
        """


def error_of_answer(status: int, request: str, raw: bytes) -> ClusterError:
    """403 and 422 come from admission, quota, RBAC and validation."""
    try:
        answer = json.loads(raw)
        words, reason = str(answer.get("message", "")), str(answer.get("reason", ""))
    except (ValueError, AttributeError):
        words, reason = raw[:300].decode(errors="replace"), ""
    sentence = f"{request}: {status} {words}"
    if status == 409:
        return ExistsError(sentence) if reason == "AlreadyExists" else ConflictError(sentence)
    if status in {400, 403, 404, 413, 422}:
        return RefusedError(sentence)
    return ClusterError(sentence)
