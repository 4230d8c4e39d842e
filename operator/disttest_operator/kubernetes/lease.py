"""Leader election by a Lease: only the operator that holds it writes. kopf's peering does not guarantee that."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from disttest_operator.core.api.api_errors import AlreadyExistsError, ApiServerError
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import Cluster

NAME = "disttest-operator"
RELEASED_SECONDS = 1  # the duration of a Lease without a holder

log = logging.getLogger(__name__)


def since_boot() -> float:
    """Seconds since boot, suspended time included: a resumed machine must not assume that it holds the Lease."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """The holder loses the Lease before others may take it."""

    duration_seconds: float = 15
    renew_seconds: float = 5
    retry_seconds: float = 1  # a standby notices a renewal later by this, and waits for the expiry from then on

    @property
    def lost_seconds(self) -> float:
        return self.duration_seconds * 2 / 3

    @property
    def answer_seconds(self) -> float:
        return self.lost_seconds / 2


class LeaderElector:
    """Acquires and renews the Lease. Expiry counts from the last observed change, since clocks of machines differ."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        identity: str,
        timing: LeaseTiming | None = None,
        monotonic: Callable[[], float] = since_boot,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._monotonic = monotonic
        self._held: Body | None = None  # as last written
        self._seen_version = ""
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._is_releasing = False
        self._lock = asyncio.Lock()  # of renewals and the release
        self.is_active = asyncio.Event()

    def may_write(self) -> bool:
        """Call it right before each write: a process that was suspended may have lost the Lease meanwhile."""
        return self.is_active.is_set() and not self._is_overdue

    @property
    def _is_overdue(self) -> bool:
        return self._monotonic() - self._renewed_at > self._timing.lost_seconds

    async def run(self) -> None:
        """Acquire and renew the Lease. Returns when it is lost, so that the process ends, and when it is released."""
        while not self._is_releasing:
            started, holds = self._monotonic(), False
            try:
                holds = await asyncio.wait_for(self._try(), self._timing.answer_seconds)
            except ApiServerError as error:
                log.warning("lease %s/%s: %s", self._namespace, NAME, error)
            except TimeoutError:
                log.warning("lease %s/%s: no answer within %g s", self._namespace, NAME, self._timing.answer_seconds)
            if self._is_releasing:
                return
            if holds:
                self._renewed_at = started
                if not self.is_active.is_set():
                    log.info("lease %s/%s: %s is active", self._namespace, NAME, self._identity)
                    self.is_active.set()
            elif self.is_active.is_set() and (self._held is None or self._is_overdue):
                log.error("lease %s/%s: lost: %s", self._namespace, NAME, self._why_lost())
                self.is_active.clear()
                self._held = None
                return
            await asyncio.sleep(self._timing.renew_seconds if holds else self._timing.retry_seconds)

    def _why_lost(self) -> str:
        if self._held is None:
            return "another operator holds it, or it was deleted"
        return f"not renewed for more than {self._timing.lost_seconds:g} s"

    async def release(self) -> None:
        """Release the Lease, so that the next operator need not wait for its expiry."""
        self._is_releasing = True
        async with self._lock:
            if self._held is None:
                return
            self.is_active.clear()
            manifest = self._manifest(self._held)
            manifest["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS}
            try:
                await self._cluster.replace(Kind.LEASE, manifest)
            except ApiServerError as error:
                log.warning("lease %s/%s: not released: %s", self._namespace, NAME, error)
            self._held = None

    async def _try(self) -> bool:
        async with self._lock:
            return not self._is_releasing and await self._renew_or_take()

    async def _renew_or_take(self) -> bool:
        """Whether this operator holds the Lease afterwards."""
        if self._held is not None:
            try:
                self._held = await self._cluster.replace(Kind.LEASE, self._manifest(self._held))
            except ApiServerError:
                body = await self._cluster.get(Kind.LEASE, self._namespace, NAME)
                holder = (body or {}).get("spec", {}).get("holderIdentity")
                self._held = body if body and holder == self._identity else None
                if self._held is None:
                    return False
                raise
            return True
        body = await self._cluster.get(Kind.LEASE, self._namespace, NAME)
        try:
            if body is None:
                self._held = await self._cluster.create(Kind.LEASE, self._manifest(None))
            elif self._is_free(body):
                self._held = await self._cluster.replace(Kind.LEASE, self._manifest(body))
        except AlreadyExistsError:
            return False
        return self._held is not None

    def _is_free(self, body: Body) -> bool:
        spec, version = body.get("spec") or {}, body["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, self._monotonic()
        if not spec.get("holderIdentity"):
            return True
        duration = spec.get("leaseDurationSeconds") or self._timing.duration_seconds
        return bool(self._monotonic() - self._seen_at > duration)

    def _manifest(self, body: Body | None) -> Manifest:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before: dict[str, Any] = dict((body or {}).get("spec") or {})
        is_own = before.get("holderIdentity") == self._identity
        meta: Manifest = {"name": NAME, "namespace": self._namespace}
        if body:
            meta["resourceVersion"] = body["metadata"]["resourceVersion"]
        return {
            "apiVersion": Kind.LEASE.api_version,
            "kind": "Lease",
            "metadata": meta,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._timing.duration_seconds),
                "acquireTime": before.get("acquireTime") if is_own else now,
                "renewTime": now,
                "leaseTransitions": before.get("leaseTransitions", 0) + (0 if is_own or not body else 1),
            },
        }
