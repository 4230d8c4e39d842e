"""Evidence of how a run ended on real nodes: what the API server reported about its objects, in order, as data.

A test that provokes an ending writes it (`DISTTEST_RECORD=1 make e2e` into tests/data/real_nodes); unit tests give it
to the rules.
"""

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from disttest_contract.transport import frames
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.paths import TESTS

DATA = TESTS / "data" / "real_nodes"
KINDS = ("pods", "jobs", "events", "nodes")
KEPT_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)
KEPT_POD_SPEC = ("nodeName", "restartPolicy", "terminationGracePeriodSeconds", "tolerations")
KEPT_CONTAINER = ("name", "image", "command", "terminationMessagePolicy")
LONG_WINDED = ("volumeMounts", "resources", "allocatedResources", "imageID", "containerID")  # of a container's status


@dataclass(frozen=True, slots=True)
class RecordedEvidence:
    at: datetime
    kind: str
    type: str
    object: Manifest


@dataclass(slots=True)
class NamespaceWatch:
    """Everything that happens to the objects of one namespace, and to the nodes, from now on."""

    cluster: SessionCluster
    namespace: str
    seen: list[RecordedEvidence] = field(default_factory=list)
    _processes: list[subprocess.Popen[str]] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for kind in KINDS:
            command = self.cluster.command(
                *("get", kind, "--namespace", self.namespace, "--watch", "--output-watch-events", "-o", "json")
            )
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            thread = threading.Thread(target=self._read, args=(kind, process), daemon=True)
            thread.start()
            self._processes.append(process)
            self._threads.append(thread)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for thread in self._threads:
            thread.join()

    def _read(self, kind: str, process: subprocess.Popen[str]) -> None:
        decoder, text = json.JSONDecoder(), ""
        assert process.stdout is not None
        for line in process.stdout:
            text += line
            with contextlib.suppress(json.JSONDecodeError):  # not whole yet
                event, end = decoder.raw_decode(text.lstrip())
                text = text.lstrip()[end:]
                self.seen.append(RecordedEvidence(datetime.now(UTC), kind, event["type"], event["object"]))
        process.stdout.close()

    def of(self, kind: str) -> list[RecordedEvidence]:
        return [one for one in self.seen if one.kind == kind]


@contextlib.contextmanager
def watching(cluster: SessionCluster, namespace: str) -> Iterator[NamespaceWatch]:
    watch = NamespaceWatch(cluster, namespace)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def write(name: str, watch: NamespaceWatch, run: Manifest, report: Mapping[str, Any] | None) -> Path:
    """One file a way to end. Where not asked to record, it goes into the cluster's directory, to be looked at."""
    folder = DATA if os.environ.get("DISTTEST_RECORD") else watch.cluster.directory / "evidence"
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.json"
    file.write_text(as_lines(record(watch, run, report)))
    return file


def as_lines(recorded: Manifest) -> str:
    """JSON with a line for each event."""
    parts = []
    for name, value in recorded.items():
        rows = value if isinstance(value, list) else [value]
        body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        parts.append(f'"{name}": [\n{body}\n]' if isinstance(value, list) else f'"{name}":\n{body}')
    return "{" + ",\n".join(parts) + "}\n"


def record(watch: NamespaceWatch, run: Manifest, report: Mapping[str, Any] | None) -> Manifest:
    """The input for a verdict: the run, events of its Job and pods, and the report if present."""
    name, status = run["metadata"]["name"], run["status"]
    label = {"disttest.dev/name": name}
    mine = [
        one
        for one in sorted(watch.seen, key=lambda one: one.at)
        if one.kind in ("pods", "jobs") and label.items() <= (one.object["metadata"].get("labels") or {}).items()
    ]
    objects = {one.object["metadata"]["name"] for one in mine} | {name}
    return {
        "run": {"metadata": _metadata(run), "spec": run["spec"]},
        "status": {key: status[key] for key in ("verdict", "reason", "message")},
        "seen": [
            {"at": one.at.isoformat(), "kind": one.kind, "type": one.type, "object": _trimmed(one)} for one in mine
        ],
        "events": _without_repetition(
            _event(one.object) for one in watch.of("events") if _about(one.object) in objects
        ),
        "nodes": _without_repetition(_node(one) for one in watch.of("nodes")),
        "logs": logs(watch, sorted({one.object["metadata"]["name"] for one in mine if one.kind == "pods"})),
        "report": _of_any_machine(report),
    }


def logs(watch: NamespaceWatch, pods: list[str]) -> list[Manifest]:
    """What can still be read when the verdict is there; the report at the end of the leader's is left out."""
    read = {
        pod: watch.cluster.kubectl("logs", "--namespace", watch.namespace, "--all-containers", pod, check=False)
        for pod in pods
    }
    return [
        {"pod": pod, "lines": [line for line in text.splitlines() if not line.startswith(frames.MARK)]}
        for pod, text in read.items()
    ]


def _of_any_machine(report: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Kernels are called after where they were built."""
    if report is None:
        return None
    nodes = [node | {"kernel": node["kernel"].partition("-")[0]} for node in report.get("preflight") or ()]
    return {**report, "preflight": nodes}


def _trimmed(one: RecordedEvidence) -> Manifest:
    body = one.object
    spec = body["spec"]
    kept: Manifest = {"metadata": _metadata(body), "status": _status(body.get("status") or {})}
    if one.kind == "jobs":
        containers = spec["template"]["spec"]["containers"]
        nonce = [variable for variable in containers[0]["env"] if variable["name"] == "DISTTEST_NONCE"]
        template = {"spec": {"containers": [{"name": containers[0]["name"], "env": nonce}]}}
        return kept | {"spec": {"suspend": spec.get("suspend", False), "template": template}}
    containers = [{key: one[key] for key in KEPT_CONTAINER if key in one} for one in spec["containers"]]
    return kept | {"spec": {key: spec[key] for key in KEPT_POD_SPEC if key in spec} | {"containers": containers}}


def _status(status: Manifest) -> Manifest:
    kept = dict(status)
    for kind in ("initContainerStatuses", "containerStatuses"):
        if kind in kept:
            kept[kind] = [{key: one[key] for key in one if key not in LONG_WINDED} for one in kept[kind]]
    return kept


def _metadata(body: Manifest) -> Manifest:
    metadata = {key: value for key, value in body["metadata"].items() if key in KEPT_METADATA}
    annotations = metadata.get("annotations", {})
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return metadata


def _event(body: Manifest) -> Manifest:
    return {key: body.get(key) for key in ("type", "reason", "message", "source")} | {
        "about": f"{body['involvedObject']['kind']} {_about(body)}"
    }


def _about(body: Manifest) -> str:
    return str((body.get("involvedObject") or {}).get("name", ""))


def _node(one: RecordedEvidence) -> Manifest:
    body = one.object
    conditions_by_type = {
        kind["type"]: f"{kind['status']} {kind['reason']}" for kind in body["status"].get("conditions") or ()
    }
    taints = [f"{taint['key']}:{taint['effect']}" for taint in body["spec"].get("taints") or ()]
    return {"type": one.type, "name": body["metadata"]["name"], "taints": taints, "conditions": conditions_by_type}


def _without_repetition(rows: Iterable[Manifest]) -> list[Manifest]:
    """In the order of first events; nodes and failed pulls repeat."""
    return [json.loads(text) for text in dict.fromkeys(json.dumps(row) for row in rows)]
