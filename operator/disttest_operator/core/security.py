"""What pods and containers may do: PodSecurity `restricted`, so that a DistTest runs in any namespace."""

from disttest_operator.core.model import DistTest, Manifest

RUNNER_USER = 65532  # the runner image's
RUNNER_GROUP = 65532


def of_pod(test: DistTest) -> Manifest:
    """A new claim's file system belongs to root: the group makes it writable for the runner, where its driver can."""
    security: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if test.has_own_image:
        security |= {"runAsUser": RUNNER_USER}  # nearly every image with torch says root, and would be refused
    if test.spec.artifacts.persistent_volume_claim:
        # OnRootMismatch: the nights before may have left a million files.
        security |= {"fsGroup": RUNNER_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    return security


def of_container() -> Manifest:
    """A new one each call."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
