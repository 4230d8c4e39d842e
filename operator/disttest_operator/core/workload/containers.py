"""What pods and containers may do: PodSecurity `restricted`, so that a DistTest runs in any namespace.

What a DistTest asks for beyond that, and the administrator allows, goes to the container that runs the tests alone.
"""

from disttest_operator.core.api import naming
from disttest_operator.core.api.model import DistTest, Manifest

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


VOLUME = "runner"


def inject_command(test: DistTest) -> list[str]:
    """Python runs the `__main__.py` of a directory. An image of somebody else's need not have a `python`."""
    return ["python3", naming.RUNNER_DIRECTORY] if test.has_own_image else ["python", "-m", "disttest_runner"]


def init_containers(test: DistTest) -> list[Manifest]:
    """The runner's own image, which is where the operator's version of the runner is."""
    if not test.has_own_image:
        return []
    container: Manifest = {
        "name": naming.INJECT_CONTAINER,
        "image": test.runner_image,
        "command": ["python", "-m", "disttest_runner.inject", naming.RUNNER_DIRECTORY],
        # Else NVIDIA's runtime gives it all GPUs, and refuses it where the driver is too old for this image's CUDA.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": of_container(),
        "volumeMounts": [{"name": VOLUME, "mountPath": naming.RUNNER_DIRECTORY}],
    }
    resources = _resources(test)
    return [container | ({"resources": resources} if resources else {})]


def inject_mounts(test: DistTest) -> list[Manifest]:
    """Of the test's container, which only reads: a suite cannot change the runner of the suites after it."""
    if not test.has_own_image:
        return []
    return [{"name": VOLUME, "mountPath": naming.RUNNER_DIRECTORY, "readOnly": True}]


def inject_volumes(test: DistTest) -> list[Manifest]:
    return [{"name": VOLUME, "emptyDir": {}}] if test.has_own_image else []


def _resources(test: DistTest) -> Manifest:
    """As the test's own, which costs nothing: a node reserves the larger of the two, not the sum.

    A quota refuses pods of which one container says nothing, and the pod's quality of service hangs on all of them.
    """
    kinds = {
        # A name with a domain is a device: it would be taken from the node only to be given back.
        kind: {name: amount for name, amount in amounts.items() if "/" not in name}
        for kind, amounts in test.spec.template.resources.items()
    }
    return {kind: amounts for kind, amounts in kinds.items() if amounts}
