"""The operator's interface to a cluster. Objects are plain dicts, as Kubernetes writes them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body

Page = tuple[list[Body], int]  # objects of a list, and the resourceVersion at which the whole list was read


WATCHED = (Kind.RUN, Kind.SERIES, Kind.JOB, Kind.POD, Kind.CRON_JOB)
# Label selectors of watches and lists. All objects of the other kinds are ours.
SELECTORS = {Kind.JOB: naming.SELECTOR, Kind.POD: naming.SELECTOR, Kind.CRON_JOB: naming.LABEL_SERIES}


class LedgerWrite(Enum):
    """The result of a write of a ledger."""

    SUCCESS = "success"
    CONFLICT = "conflict"  # another client was faster: tried again at once
    REFUSED = "refused"  # runs of the series stay without a verdict
    ERROR = "error"


class Transport(Enum):
    """How a report gets to the operator."""

    LOG = "log"
    CONFIG_MAP = "configmap"


class OperationCounter(Protocol):
    """Receives what is counted for /metrics."""

    def count_ledger_write(self, result: LedgerWrite) -> None: ...

    def count_report(self, transport: Transport, outcome: str) -> None:
        """A report was read: found, missing, invalid or unreadable."""

    def count_progress(self) -> None:
        """Progress was written into the status of a run."""

    def note_followed(self, logs: int) -> None: ...


class Cluster(Protocol):
    """Every call has a deadline and raises ApiServerError.

    `gap` is set when a watch was restarted: it does not report earlier changes, so they must be read from a list.
    """

    gap: asyncio.Event

    @property
    def server_time(self) -> datetime | None:
        """The API server's clock at its last answer."""

    async def get(self, kind: Kind, namespace: str, name: str, *, only_metadata: bool = False) -> Body | None:
        """None: the object does not exist."""

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[Body]: ...

    def pages(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", only_metadata: bool = False
    ) -> AsyncIterator[Page]:
        """The same list in pages, to save memory; all have the same resourceVersion."""

    async def create(self, kind: Kind, manifest: Manifest) -> Body:
        """Returns the metadata at least."""

    async def replace(self, kind: Kind, manifest: Manifest) -> Body:
        """Guarded by the manifest's resourceVersion."""

    async def patch_status(self, kind: Kind, body_meta: Mapping[str, Any], status: Mapping[str, Any]) -> Body | None:
        """Guarded by uid and resourceVersion of `body_meta`. None: the object is gone."""

    async def patch_owners(self, kind: Kind, body_meta: Mapping[str, Any], owners: Sequence[Manifest]) -> None:
        """Guarded in the same way. An object that is gone is no error."""

    async def patch_labels(self, kind: Kind, name: str, labels: Mapping[str, str | None]) -> None:
        """Change labels of an object without a namespace, which may be gone. None removes a label."""

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str, version: str = "") -> None:
        """Delete the object with this uid and `version`, and its dependants in the background. It may be gone already.

        Raises ConflictError if the object of this name has another uid or version.
        """

    async def log(self, namespace: str, pod: str, *, limit_bytes: int) -> bytes | None:
        """The log of the gang's container from its beginning. None: the pod is gone."""

    def follow_log(
        self, namespace: str, pod: str, *, prefix: str, tail_lines: int, limit_bytes: int
    ) -> AsyncGenerator[str, None]:
        """Follow that log from its last `tail_lines` and yield lines that begin with `prefix`, without too long ones.

        It ends with the container, after `limit_bytes`, and after a long silence.
        """
