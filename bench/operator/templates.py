"""Objects that the minimal client writes, of the same size as the operator's."""

import base64
import gzip
import json
import time
from typing import Any

Json = dict[str, Any]
GROUP = "disttest.dev"


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _labels(run: Json) -> dict[str, str]:
    return {
        f"{GROUP}/name": run["metadata"]["name"],
        f"{GROUP}/uid": run["metadata"]["uid"],
        f"{GROUP}/series": run["spec"]["series"],
        "app.kubernetes.io/managed-by": "disttest-operator",
        f"{GROUP}/attempt": "1",
    }


def _meta(run: Json, name: str, **more: Any) -> Json:
    owner = {"apiVersion": run["apiVersion"], "kind": "DistTest", "controller": True, "blockOwnerDeletion": True}
    owner |= {key: run["metadata"][key] for key in ("name", "uid")}
    where = {"name": name, "namespace": run["metadata"]["namespace"]}
    return {**where, "labels": _labels(run), "ownerReferences": [owner], **more}


def service(run: Json) -> Json:
    selector = {key: value for key, value in _labels(run).items() if key in {f"{GROUP}/uid", f"{GROUP}/attempt"}}
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(run, f"{run['metadata']['name']}-a1"),
        "spec": spec,
    }


def job(run: Json, nonce: str) -> Json:
    nodes, labels = run["spec"]["nodes"], _labels(run)
    annotations = run["spec"]["template"]["metadata"]["annotations"]
    when = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    spec = {
        "completionMode": "Indexed",
        "completions": nodes,
        "parallelism": nodes,
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": nodes,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [{"action": "FailJob", **when}]},
        "activeDeadlineSeconds": 15150,
        "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": _pod(run, nonce)},
    }
    meta = _meta(run, f"{run['metadata']['name']}-a1")
    if queue := run["spec"].get("queueName"):
        spec["suspend"] = True
        meta["labels"]["kueue.x-k8s.io/queue-name"] = queue
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _pod(run: Json, nonce: str) -> Json:
    name = f"{run['metadata']['name']}-a1"
    own = {"matchLabels": {f"{GROUP}/uid": run["metadata"]["uid"], f"{GROUP}/attempt": "1"}}
    apart = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": own}]
    gone = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        "subdomain": name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [{"key": key, **gone} for key in keys],
        "containers": [_container(run, nonce)],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "dshm", "emptyDir": {"medium": "Memory"}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
    }


def _container(run: Json, nonce: str) -> Json:
    meta, name = run["metadata"], f"{run['metadata']['name']}-a1"
    values = {
        "HOME": "/tmp",  # noqa: S108 - a path inside the container, as the ones below
        "TMPDIR": "/tmp",  # noqa: S108
        "USER": "disttest",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",  # noqa: S108
        "TRITON_CACHE_DIR": "/tmp/triton",  # noqa: S108
        "DISTTEST_PLAN": _plan(run),
        "DISTTEST_NONCE": nonce,
        "DISTTEST_LEADER": f"{name}-0.{name}.{meta['namespace']}.svc:29400",
    }
    fields = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}
    return {
        "name": "test",
        "image": "disttest-runner:dev",
        "command": ["python", "-m", "disttest_runner"],
        "workingDir": "/tmp",  # noqa: S108
        "env": [
            *({"name": key, "value": value} for key, value in values.items()),
            *(
                {"name": f"DISTTEST_{key}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for key, path in fields.items()
            ),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108
        ],
    }


def _plan(run: Json) -> str:
    meta, spec = run["metadata"], run["spec"]
    times = {f"{key}_seconds": spec["timeouts"][f"{key}Seconds"] for key in ("join", "case", "run")}
    empty = {"directory": "", "root": "", "files": [], "select": "", "env": []}
    return json.dumps(
        {
            "schema": 1,
            **{key: meta[key] for key in ("namespace", "name", "uid")},
            "series": spec["series"],
            "attempt": 1,
            "nodes": spec["nodes"],
            "ranks_per_node": spec["ranksPerNode"],
            "backend": "gloo",
            "spread": True,
            **times,
            "flaky_retries": 1,
            "artifacts": "",
            "suites": [{"name": one["name"], "builtin": one["name"], **empty} for one in spec["suites"]],
        },
        separators=(",", ":"),
    )


def config_map(run: Json, raw: bytes, sha256: str) -> Json:
    name = f"{run['metadata']['name']}-report"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(run, name, annotations={f"{GROUP}/report-sha256": sha256}),
        "immutable": True,
        "binaryData": {"report.json.gz": base64.b64encode(gzip.compress(raw, mtime=0)).decode()},
    }


def event(run: Json, reason: str, note: str) -> Json:
    about = {key: run["metadata"][key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name']}.{reason.lower()}", "namespace": about["namespace"]},
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
        "reportingController": "disttest-operator",
        "reportingInstance": "minimal",
        "action": "Reconcile",
        "type": "Normal",
        "reason": reason,
        "note": note,
        "regarding": {"apiVersion": run["apiVersion"], "kind": "DistTest", **about},
    }


def _condition(kind: str, status: str, reason: str, message: str) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(),
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
        "conditions": [_condition("GangReady", "False", "Starting", "waits for pods")],
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
        "startTime": stamp(),
        "completionTime": stamp(),
        "durationSeconds": seconds,
        "stepSeconds": dict.fromkeys(("queued", "scheduled", "pulled", "joined", "ran", "collected"), seconds),
        "conditions": [
            _condition("GangReady", "True", "GangRunning", "all pods run"),
            _condition("ResultsCollected", "True", "ReportRead", "the report was read"),
            _condition(passed, "True", reason, message),
            _condition("Finished", "True", verdict, message),
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
