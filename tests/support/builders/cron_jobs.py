"""CronJobs that run a series, as the API server sends them."""

from typing import Any

CREATED = "2026-11-01T12:00:00Z"


def cron_job_body(name: str = "nightly", series: str | None = "nightly", **spec: Any) -> dict[str, Any]:
    """Every night at one, without a deadline; with `series` None it has no label."""
    labels = {"app": "nightly"} | ({} if series is None else {"disttest.dev/series": series})
    usual = {"schedule": "0 1 * * *", "suspend": False, "jobTemplate": {"spec": {"template": {"spec": {}}}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": name,
            "namespace": "gpu-ci",
            "uid": f"uid-of-{name}",
            "labels": labels,
            "creationTimestamp": CREATED,
            "resourceVersion": "7",
        },
        "spec": usual | spec,
    }


def written(time: str, *fields: str, subresource: str = "", label: str = "") -> dict[str, Any]:
    """An entry of managed fields: who wrote these of the spec, and a label."""
    labels: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{label}": {}}}} if label else {}
    return {
        "manager": "kubectl",
        "operation": "Update",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": labels | ({"f:spec": {f"f:{field}": {} for field in fields}} if fields else {}),
    } | ({"subresource": subresource} if subresource else {})
