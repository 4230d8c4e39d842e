"""A cluster in memory and an operator that may be started anew: one run from its DistTest to its verdict."""

import asyncio
from datetime import datetime
from typing import Any

from disttest_contract import frames
from disttest_contract.message import Summary
from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.caches import Caches, Key
from disttest_operator.core import bodies, naming
from disttest_operator.core.evidence import Policy
from disttest_operator.core.model import Defaults
from disttest_operator.ports import Kind
from disttest_operator.reconcile import Reconciler, Settings
from tests.support.fake_cluster import FakeCluster
from tests.support.runs import UID, a_report, a_summary, at, found

KEY = Key(kind=Kind.RUN, namespace="gpu-ci", name="nightly")
SERIES = Key(kind=Kind.SERIES, namespace="gpu-ci", name="adhoc")
REPORT = found(a_report())


class World:
    """A cluster, and an operator that may be started anew. Watches tell of everything at once."""

    def __init__(self, **spec: Any) -> None:
        self.cluster = FakeCluster()
        self.now = at(0)
        self.policy = Policy()
        self.report = REPORT
        self.cluster.put(Kind.RUN, run_body(**spec))
        self.start()

    def start(self) -> None:
        """A new operator: empty caches, filled from lists."""
        self.caches = Caches(Defaults(image="runner:1"))
        self.later: list[Key] = []
        self.reconciler = Reconciler(
            self.cluster,
            self.caches,
            settings=Settings(policy=self.policy, instance="me"),
            clock=self.clock,
            plan_later=lambda key, _: self.later.append(key),
        )

    def clock(self) -> datetime:
        return self.now

    def look(self, key: Key = KEY) -> float | None:
        """One reconcile."""
        for (kind, _, _), body in self.cluster.objects.items():
            if kind in {Kind.RUN, Kind.SERIES, Kind.JOB, Kind.POD}:
                self.caches.put(kind, body, self.now)
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
        return bodies.job(self.cluster.objects[Kind.JOB, "gpu-ci", "nightly-a1"]).nonce

    def pods(self, **state: Any) -> None:
        """Both pods, as a kubelet reports them."""
        for index in (0, 1):
            self.cluster.put(Kind.POD, pod_body(index, state))

    def finish(self, lines: list[str] | None = None, **summary: Any) -> None:
        """All agents have ended well, and the leader's log holds a report."""
        self.now = at(20)
        told = {
            "verdict": Verdict.PASSED,
            "reason": Reason.ALL_CASES_PASSED,
            "report_sha256": self.report.sha256,
            **summary,
        }
        self.pods(terminated=terminated(0, a_summary(**told)))
        self.cluster.logs["pod-0"] = "\n".join(lines or ["hello", *frames.encode(self.report.raw, self.nonce)])


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


def pod_body(index: int, state: dict[str, Any]) -> dict[str, Any]:
    labels = {naming.LABEL_NAME: "nightly", naming.LABEL_UID: UID, naming.LABEL_ATTEMPT: "1"}
    return {
        "metadata": {
            "name": f"pod-{index}",
            "namespace": "gpu-ci",
            "uid": f"pod-{index}",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"nodeName": f"node{index}"},
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


def live(world: World) -> None:
    """All of a run, whatever was done before the power failed."""
    world.look()
    if not world.status.get("verdict"):
        world.pods(**RUNNING)
        world.look()
        world.finish()
        world.look()
    world.look(SERIES)
