"""Objects that the minimal client writes: the operator's own, made once for each spec and then filled in as text."""

import base64
import functools
import gzip
import json
import time

from devcluster.controlplane.kubeapi import Json
from devcluster.node.status import now, now_precisely
from devcluster.operator_process import RUNNER_IMAGE
from disttest_operator.core.api import naming, parse
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.workload import job as workload

DEFAULTS = Defaults(image=RUNNER_IMAGE)
# Replaced for each run; as they are, they are valid names.
MARKS = {key: f"{key}-mark" for key in ("namespace", "name", "uid", "series", "nonce", "sha256")}


@functools.cache
def _made(spec: str) -> dict[str, str]:
    """Make the JSON of each kind of object, with marks, for a run with this spec in JSON."""
    meta = {key: MARKS[key] for key in ("namespace", "name", "uid")}
    body = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTest", "metadata": meta, "spec": json.loads(spec)}
    test = parse.parse(body, DEFAULTS)
    report = naming.report_config_map(test)
    manifests = {
        "Service": workload.build_service(test, 1),
        "Job": workload.build_job(test, 1, MARKS["nonce"]),
        "ConfigMap": workload.build_report_config_map(test, report, b"", MARKS["sha256"]),
    }
    return {kind: json.dumps(manifest) for kind, manifest in manifests.items()}


def _filled(kind: str, run: Json, **values: str) -> Json:
    meta, spec = run["metadata"], run["spec"]
    text = _made(json.dumps(spec | {"series": MARKS["series"]}))[kind]
    values |= {key: meta[key] for key in ("namespace", "name", "uid")} | {"series": spec["series"]}
    for key, value in values.items():
        text = text.replace(MARKS[key], value)
    manifest: Json = json.loads(text)
    return manifest


def service(run: Json) -> Json:
    return _filled("Service", run)


def job(run: Json, nonce: str) -> Json:
    return _filled("Job", run, nonce=nonce)


def config_map(run: Json, raw: bytes, sha256: str) -> Json:
    data = {naming.REPORT_KEY: base64.b64encode(gzip.compress(raw, mtime=0)).decode()}
    return _filled("ConfigMap", run, sha256=sha256) | {"binaryData": data}


def event(run: Json, reason: str, note: str) -> Json:
    about = {key: run["metadata"][key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name']}.{reason.lower()}", "namespace": about["namespace"]},
        "eventTime": now_precisely(),
        "reportingController": "disttest-operator",
        "reportingInstance": "minimal",
        "action": "Reconcile",
        "type": "Normal",
        "reason": reason,
        "note": note,
        "regarding": {"apiVersion": run["apiVersion"], "kind": "DistTest", **about},
    }


def condition(kind: str, status: str, reason: str, message: str) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
        "observedGeneration": 1,
    }


def unfinished(run: Json) -> Json:
    return {
        "observedGeneration": 1,
        "series": run["spec"]["series"],
        "gpus": 0,
        "attempt": 1,
        "phase": "Queued",
        "reason": "",
        "message": "waits for pods",
        "conditions": [condition("GangReady", "False", "Starting", "waits for pods")],
    }


def finished(run: Json, report: Json, sha256: str, started: float) -> Json:
    verdict, reason, message = report["verdict"], report["reason"], report["message"]
    passed = "Complete" if verdict == "Passed" else "Failed"
    seconds = round(time.time() - started, 3)
    return unfinished(run) | {
        "phase": "Finished",
        "verdict": verdict,
        "reason": reason,
        "message": message,
        "startTime": now(),
        "completionTime": now(),
        "durationSeconds": seconds,
        "stepSeconds": dict.fromkeys(("queued", "scheduled", "pulled", "joined", "ran", "collected"), seconds),
        "conditions": [
            condition("GangReady", "True", "GangRunning", "all pods run"),
            condition("ResultsCollected", "True", "ReportRead", "the report was read"),
            condition(passed, "True", reason, message),
            condition("Finished", "True", verdict, message),
        ],
        "cases": report["counts"],
        "suites": [
            {key: suite[key] for key in ("name", "verdict", "reason", "message", "seconds")}
            | {"cases": suite["counts"]}
            for suite in report["suites"]
        ],
        "failures": [],
        "report": {"configMap": f"{run['metadata']['name']}-report", "sha256": sha256},
    }
