"""The batch scheduler: what puts the Job of a run into its queue, and how a Job that waits there is recognised.

No other module of the operator and the command line depends on Kueue. The module is in `api` because `observed`
recognises a waiting Job by it.
"""

from collections.abc import Mapping
from typing import Any

from disttest_operator.core.api.model import Manifest

API_GROUP = "kueue.x-k8s.io"
QUEUE_RESOURCE = "localqueues"  # what spec.queueName names
QUEUE_LABEL = f"{API_GROUP}/queue-name"


def prepare(job: Manifest, queue_name: str) -> Manifest:
    """Return the Job to create: the given manifest, and with a queue its label.

    Then it is suspended, since Kueue resumes what it admits, and without Kueue the run must not jump the queue.
    """
    if not queue_name:
        return job
    metadata = job["metadata"]
    labels = metadata["labels"] | {QUEUE_LABEL: queue_name}
    return job | {"metadata": metadata | {"labels": labels}, "spec": job["spec"] | {"suspend": True}}


def is_waiting(job: Mapping[str, Any]) -> bool:
    """Whether a queue, or a user, holds back this Job.

    `suspend` is the protocol of Kubernetes for queues: Kueue sets it to false when it admits a Job, and to true again
    when it evicts one, whose pods then end.
    """
    return bool(job["spec"].get("suspend"))
