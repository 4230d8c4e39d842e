"""What pods and containers may do: PodSecurity `restricted`, so that a DistTest runs in any namespace.

What a DistTest asks for beyond that, and the administrator allows, goes to the container that runs the tests alone.
"""

from disttest_operator.core.model import DistTest, Manifest

RUNNER_USER = 65532  # the runner image's
RUNNER_GROUP = 65532


def of_pod(test: DistTest) -> Manifest:
    """A new claim's file system belongs to root: the group makes it writable for the runner, where its driver can."""
    security: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if test.has_own_image:
        security |= {"runAsUser": RUNNER_USER}  # nearly every image with torch says root, and would be refused
    is_written = any(not claim.get("readOnly") for claim in test.spec.template.claims)
    if test.spec.artifacts.persistent_volume_claim or is_written:
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


def of_test_container(test: DistTest) -> Manifest:
    """That of every container, with what the template asks for."""
    asked, security = test.spec.template.security_context, of_container()
    if asked.capabilities:
        security["capabilities"] = {"drop": ["ALL"], "add": list(asked.capabilities)}
    if asked.privileged:
        # The API server takes privileged only without the first; all capabilities and none contradict each other.
        del security["allowPrivilegeEscalation"], security["capabilities"]
        security["privileged"] = True
    if asked.run_as_user is not None:
        security["runAsUser"] = asked.run_as_user
    if asked.run_as_user == 0:
        security["runAsNonRoot"] = False  # the pod's says true, and the kubelet would not start the container
    return security
