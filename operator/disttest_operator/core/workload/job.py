"""Manifests of the objects that the operator creates: each call returns a new dict."""

import base64

from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_operator.core.api import naming, scheduler
from disttest_operator.core.api.model import API_VERSION, DistTest, Manifest
from disttest_operator.core.workload import pod

SAFETY_SECONDS = 120  # the Job's deadline is this much later than the operator's own


def run_owner(name: str, uid: str) -> Manifest:
    """blockOwnerDeletion: with foreground deletion the DistTest is deleted last, when its GPUs are free."""
    return _reference("DistTest", name, uid) | {"controller": True, "blockOwnerDeletion": True}


def series_owner(name: str, uid: str) -> Manifest:
    """A second owner keeps a report: an object is deleted with the last of its owners."""
    return _reference("DistTestSeries", name, uid)


def _reference(kind: str, name: str, uid: str) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid}


def _metadata(test: DistTest, name: str, labels: dict[str, str], **more: Manifest) -> Manifest:
    owners = [run_owner(test.name, test.uid)]
    return {"name": name, "namespace": test.namespace, "labels": labels, **more, "ownerReferences": owners}


def build_service(test: DistTest, attempt: int) -> Manifest:
    """A headless Service: it gives the pods of an attempt their DNS names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(test, naming.service(test, attempt), naming.labels(test, attempt)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # agents connect before any of them is ready
            "selector": pod.selector(test, attempt),
        },
    }


def build_job(
    test: DistTest,
    attempt: int,
    nonce: str,
    *,
    quarantine: Lists = NOTHING,
    avoid: tuple[str, ...] = (),
    avoid_if_possible: tuple[str, ...] = (),
) -> Manifest:
    """The gang of an attempt. Created once and never applied again: that would undo what a scheduler sets."""
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": test.spec.nodes,
        "parallelism": test.spec.nodes,
        # A failed pod must not end the others, which have evidence: the operator ends the attempt.
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": test.spec.nodes,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "activeDeadlineSeconds": _active_deadline_seconds(test),
        "template": pod.build_template(
            test, attempt, nonce, quarantine=quarantine, avoid=avoid, avoid_if_possible=avoid_if_possible
        ),
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(test, naming.job(test, attempt), naming.labels(test, attempt)),
        "spec": spec,
    }
    return scheduler.prepare(job, test.spec.queue_name)


def build_report_config_map(test: DistTest, name: str, gz_bytes: bytes, sha256: str) -> Manifest:
    """The report as a gzip; `sha256` is that of the JSON before compression."""
    annotations = {naming.ANNOTATION_REPORT_SHA256: sha256}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(test, name, naming.run_labels(test), annotations=annotations),
        "immutable": True,
        "binaryData": {naming.REPORT_KEY: base64.b64encode(gz_bytes).decode()},
    }


def build_series(namespace: str, series: str) -> Manifest:
    """The ledger of a series. It has no owner, since it outlives the runs."""
    return {
        "apiVersion": API_VERSION,
        "kind": "DistTestSeries",
        "metadata": {
            "name": series,
            "namespace": namespace,
            "labels": {naming.LABEL_SERIES: series, naming.LABEL_MANAGED_BY: naming.MANAGED_BY},
        },
    }


def _active_deadline_seconds(test: DistTest) -> int:
    """A deadline for the time without an operator; it counts from the Job's start and so includes queueing."""
    timeouts = test.spec.timeouts
    seconds = timeouts.queue_seconds + timeouts.rendezvous_seconds + timeouts.run_seconds
    return seconds + pod.TERMINATION_GRACE_SECONDS + SAFETY_SECONDS
