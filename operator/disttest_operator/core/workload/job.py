"""The objects that the operator creates, as plain dicts. Each call makes new ones."""

import base64
import hashlib
from datetime import UTC, datetime

from disttest_contract import limits
from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import API_VERSION, DistTest, Manifest
from disttest_operator.core.workload import pod

EVENT_NOTE_BYTES = 1024  # the API server's limit
SAFETY_SECONDS = 120  # by which the operator's own deadlines come first


def owner(test: DistTest) -> Manifest:
    return run_owner(test.name, test.uid)


def run_owner(name: str, uid: str) -> Manifest:
    """blockOwnerDeletion: with foreground deletion the DistTest goes last, when its GPUs are free."""
    return {
        "apiVersion": API_VERSION,
        "kind": "DistTest",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def series_owner(name: str, uid: str) -> Manifest:
    """Of the reports that it keeps: an object goes when the last of its owners has gone."""
    return {"apiVersion": API_VERSION, "kind": "DistTestSeries", "name": name, "uid": uid}


def build_service(test: DistTest, attempt: int) -> Manifest:
    """Headless: it gives the pods of an attempt their names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": naming.service(test, attempt),
            "namespace": test.namespace,
            "labels": naming.labels(test, attempt),
            "ownerReferences": [owner(test)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # agents look for each other before any of them is ready
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
    shun: tuple[str, ...] = (),
) -> Manifest:
    """The gang of an attempt. Created once and never applied again: that would undo what Kueue sets."""
    labels = naming.labels(test, attempt)
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": test.spec.nodes,
        "parallelism": test.spec.nodes,
        # A failed pod must not take the others and their evidence with it: the operator ends the attempt.
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": test.spec.nodes,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "activeDeadlineSeconds": _active_deadline_seconds(test),
        "template": pod.build_template(test, attempt, nonce, quarantine=quarantine, avoid=avoid, shun=shun),
    }
    if test.spec.queue_name:
        labels[naming.LABEL_QUEUE] = test.spec.queue_name
        spec["suspend"] = True  # Kueue resumes it; where there is no Kueue the run must not jump the queue
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": naming.job(test, attempt),
            "namespace": test.namespace,
            "labels": labels,
            "ownerReferences": [owner(test)],
        },
        "spec": spec,
    }


def build_report_config_map(test: DistTest, name: str, gz_bytes: bytes, sha256: str) -> Manifest:
    """The report, packed; `sha256` is that of the unpacked JSON."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": test.namespace,
            "labels": naming.run_labels(test),
            "annotations": {naming.ANNOTATION_REPORT_SHA256: sha256},
            "ownerReferences": [owner(test)],
        },
        "immutable": True,
        "binaryData": {naming.REPORT_KEY: base64.b64encode(gz_bytes).decode()},
    }


def build_series(namespace: str, series: str) -> Manifest:
    """The ledger of a series. Nobody owns it: it outlives the runs."""
    return {
        "apiVersion": API_VERSION,
        "kind": "DistTestSeries",
        "metadata": {
            "name": series,
            "namespace": namespace,
            "labels": {naming.LABEL_SERIES: series, naming.LABEL_MANAGED_BY: naming.MANAGED_BY},
        },
    }


def build_event(test: DistTest, *, reason: str, note: str, warning: bool, now: datetime, instance: str) -> Manifest:
    """One for each (run, reason, note), which make its name: a second try is a conflict, not a double."""
    digest = hashlib.sha256(f"{test.uid} {reason} {note}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{test.name}.{digest}", "namespace": test.namespace},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": naming.MANAGED_BY,
        "reportingInstance": instance[:128],
        "action": "Reconcile",
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "note": limits.cut(note, EVENT_NOTE_BYTES),
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": "DistTest",
            "name": test.name,
            "namespace": test.namespace,
            "uid": test.uid,
        },
    }


def _active_deadline_seconds(test: DistTest) -> int:
    """A safety net for an absent operator; it counts from the Job's start, so waiting for nodes is in it."""
    timeouts = test.spec.timeouts
    return (
        timeouts.queue_seconds
        + timeouts.join_seconds
        + timeouts.run_seconds
        + pod.TERMINATION_GRACE_SECONDS
        + SAFETY_SECONDS
    )
