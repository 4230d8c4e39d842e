"""A cluster in memory and an operator that can restart: one run from its DistTest to its verdict."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.transport import frames
from disttest_contract.transport.termination_message import Summary
from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import Key
from disttest_operator.controller.reconcile import Reconciler, ReconcileSettings
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.hardware import known_signs
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.evidence import Policy
from disttest_operator.kubernetes.ports import WATCHED
from tests.support.builders.runs import UID, a_report, a_summary, at, found
from tests.support.fakes.fake_cluster import FakeCluster
from tests.support.fakes.uncounted import Uncounted

KEY = Key(kind=Kind.RUN, namespace="gpu-ci", name="nightly")
SERIES = Key(kind=Kind.SERIES, namespace="gpu-ci", name="adhoc")
REPORT = found(a_report())
NEWEST = 10**9  # a resourceVersion beyond all others


class OperatorWorld:
    """A cluster, and an operator that can restart. Watches deliver events at once."""

    def __init__(self, **spec: Any) -> None:
        self.cluster = FakeCluster()
        self.now = at(0)
        self.policy = Policy()
        self.rules = known_signs.KNOWN
        self.report = REPORT
        self.series_idle_days = 0
        self.retained_reports = 10
        self.cluster.put(Kind.RUN, run_body(**spec))
        self.start()

    def start(self) -> None:
        """A new operator: empty caches, filled from lists."""
        self.caches = Cache(Defaults(image="runner:1"))
        self.later: list[Key] = []
        self.reconciler = Reconciler(
            self.cluster,
            self.caches,
            settings=ReconcileSettings(
                policy=self.policy,
                rules=self.rules,
                series_idle_days=self.series_idle_days,
                retained_reports=self.retained_reports,
                instance="me",
            ),
            clock=self.clock,
            plan_later=lambda key, _: self.later.append(key),
            counts=Uncounted(),
        )

    def clock(self) -> datetime:
        return self.now

    def look(self, key: Key = KEY) -> float | None:
        """One reconcile."""
        present = set()
        for (kind, _, _), body in self.cluster.objects.items():
            if is_watched(kind, body):
                present.add(body["metadata"]["uid"])
                self.caches.put(kind, body, self.now)
        for kind in WATCHED:
            self.caches.prune(kind, present, NEWEST, self.now)
        return asyncio.run(self.reconciler.reconcile(key))

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.objects[Kind.RUN, "gpu-ci", "nightly"].get("status", {})
        return status

    @property
    def ledger(self) -> dict[str, Any]:
        body = self.cluster.objects.get((Kind.SERIES, "gpu-ci", "adhoc"), {})
        status: dict[str, Any] = body.get("status", {})
        return status

    @property
    def nonce(self) -> str:
        return self.nonce_of(1)

    def nonce_of(self, attempt: int) -> str:
        return decoding.job(self.cluster.objects[Kind.JOB, "gpu-ci", f"nightly-a{attempt}"]).nonce

    def pods(self, **state: Any) -> None:
        """Both pods of the first attempt, as a kubelet reports them."""
        self.pods_of(1, **state)

    def pods_of(self, attempt: int, /, **state: Any) -> None:
        for index in (0, 1):
            self.cluster.put(Kind.POD, pod_body(index, state, attempt))

    def finish(
        self, lines: list[str] | None = None, attempt: int = 1, said_before: str = "hello", **summary: Any
    ) -> None:
        """All agents have ended well, and the leader's log holds a report."""
        self.now = max(self.now, at(20))
        report = self.report if attempt == 1 else found(a_report(attempt=attempt))
        said = {"verdict": Verdict.PASSED, "reason": Reason.ALL_CASES_PASSED, "report_sha256": report.sha256}
        self.pods_of(attempt, terminated=terminated(0, a_summary(attempt=attempt, **said | summary)))
        leader = pod_body(0, {}, attempt)["metadata"]["name"]
        self.cluster.logs[leader] = "\n".join(
            lines or [said_before, *frames.encode(report.raw, self.nonce_of(attempt))]
        )

    def lose_a_node(self) -> None:
        """Of the second pod of the first attempt; the leader ends without a report, and its pods with their Job."""
        lost = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "gone"}
        self.pods(terminated=terminated(20, a_summary(current="t.py::test_a")))
        body = pod_body(1, {"terminated": terminated(143, a_summary(node_index=1))})
        body["status"]["conditions"].append(lost | {"lastTransitionTime": "2026-11-21T02:00:20Z"})
        self.cluster.put(Kind.POD, body)
        self.now = at(60)


def is_watched(kind: Kind, body: Mapping[str, Any]) -> bool:
    """Jobs and pods are watched by label."""
    return kind in WATCHED and (
        kind not in {Kind.JOB, Kind.POD} or naming.LABEL_NAME in (body["metadata"].get("labels") or {})
    )


def run_body(**spec: Any) -> dict[str, Any]:
    usual = {"suites": [{"name": "collectives"}], "nodes": 2, "gpusPerNode": 0, "ranksPerNode": 2}
    meta = {"name": "nightly", "namespace": "gpu-ci", "uid": UID, "generation": 1}
    stamp = {"creationTimestamp": "2026-11-21T02:00:00Z"}
    return {
        "apiVersion": "disttest.dev/v1alpha1",
        "kind": "DistTest",
        "metadata": meta | stamp,
        "spec": usual | spec,
    }


def pod_body(index: int, state: dict[str, Any], attempt: int = 1) -> dict[str, Any]:
    labels = {naming.LABEL_NAME: "nightly", naming.LABEL_UID: UID, naming.LABEL_ATTEMPT: str(attempt)}
    name = f"pod-{index}" if attempt == 1 else f"pod-{index}-a{attempt}"
    return {
        "metadata": {
            "name": name,
            "namespace": "gpu-ci",
            "uid": name,
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"nodeName": f"node{index + 2 * (attempt - 1)}"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T02:00:03Z"}],
            "containerStatuses": [{"name": "test", "state": state}],
        },
    }


def terminated(code: int, summary: Summary) -> dict[str, Any]:
    return {
        "exitCode": code,
        "startedAt": "2026-11-21T02:00:05Z",
        "finishedAt": "2026-11-21T02:00:20Z",
        "message": summary.to_bytes().decode(),
    }


RUNNING = {"running": {"startedAt": "2026-11-21T02:00:05Z"}}


def live(world: OperatorWorld) -> None:
    """All of a run, whatever was done before the power failed."""
    world.look()
    if not world.status.get("verdict"):
        world.pods(**RUNNING)
        world.look()
        world.finish()
        world.look()
    world.look(SERIES)
