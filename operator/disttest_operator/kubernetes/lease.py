"""Which of several operators acts: the one that holds the Lease. Outside of kopf, whose peering writes and guesses."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from disttest_operator.core.api.model import Manifest
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import Cluster, ClusterError, ExistsError, Kind

NAME = "disttest-operator"
RELEASED_SECONDS = 1  # the duration of a Lease that nobody holds

log = logging.getLogger(__name__)


def since_boot() -> float:
    """Seconds, of which none is left out: a machine that was suspended must not think that it still holds the Lease."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The Lease is lost to us earlier than it is free for others."""

    duration_seconds: float = 15
    renew_seconds: float = 5
    retry_seconds: float = 1  # a standby sees a renewal so much late, and waits for the Lease to expire since then

    @property
    def lost_seconds(self) -> float:
        return self.duration_seconds * 2 / 3

    @property
    def answer_seconds(self) -> float:
        return self.lost_seconds / 2


class Elector:
    """Others' expiry is judged by our own clock, since the last change that we saw: clocks of machines differ."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        identity: str,
        timing: Timing | None = None,
        monotonic: Callable[[], float] = since_boot,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._identity = identity
        self._timing = timing or Timing()
        self._monotonic = monotonic
        self._held: Body | None = None  # as we wrote it last
        self._seen_version = ""
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._is_leaving = False
        self._one_at_a_time = asyncio.Lock()  # renewing and releasing
        self.is_active = asyncio.Event()

    def may_write(self) -> bool:
        """To be asked right before each write: who was frozen goes on where it was, and another may act by now."""
        return self.is_active.is_set() and not self._is_overdue

    @property
    def _is_overdue(self) -> bool:
        return self._monotonic() - self._renewed_at > self._timing.lost_seconds

    async def run(self) -> None:
        """Acquire, renew; returns when the Lease is lost: the process must end, since another may act by now.

        And once it is released: nobody who leaves takes it again.
        """
        while not self._is_leaving:
            begun = self._monotonic()
            try:
                holds = await asyncio.wait_for(self._try(), self._timing.answer_seconds)
            except ClusterError as error:
                log.warning("lease %s/%s: %s", self._namespace, NAME, error)
                holds = False
            except TimeoutError:
                log.warning("lease %s/%s: no answer within %g s", self._namespace, NAME, self._timing.answer_seconds)
                holds = False
            if self._is_leaving:
                return
            if holds:
                self._renewed_at = begun
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
            return "somebody else holds it, or it is gone"
        return f"not renewed for more than {self._timing.lost_seconds:g} s"

    async def release(self) -> None:
        """So that the next operator need not wait for the Lease to expire."""
        self._is_leaving = True
        async with self._one_at_a_time:
            if self._held:
                await self._hand_back(self._held)

    async def _hand_back(self, held: Body) -> None:
        self.is_active.clear()
        manifest = self._manifest(held)
        manifest["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS}
        try:
            await self._cluster.replace(Kind.LEASE, manifest)
        except ClusterError as error:
            log.warning("lease %s/%s: not released: %s", self._namespace, NAME, error)
        self._held = None

    async def _try(self) -> bool:
        async with self._one_at_a_time:
            return not self._is_leaving and await self._renew_or_take()

    async def _renew_or_take(self) -> bool:
        """What we hold, or what is free."""
        if self._held is not None:
            try:
                self._held = await self._cluster.replace(Kind.LEASE, self._manifest(self._held))
            except ClusterError:
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
        except ExistsError:
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
        is_mine = before.get("holderIdentity") == self._identity
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
                "acquireTime": before.get("acquireTime") if is_mine else now,
                "renewTime": now,
                "leaseTransitions": before.get("leaseTransitions", 0) + (0 if is_mine or not body else 1),
            },
        }
