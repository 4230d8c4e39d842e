"""Security contexts of pods and containers, and the init container that copies the runner into the test's image.

Pods satisfy PodSecurity `restricted`, so that a DistTest runs in any namespace. Only the container that runs the tests
gets what a DistTest requests beyond that and the administrator allows.
"""

from disttest_contract.gang import environment
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import DistTest, Manifest

RUNNER_USER = RUNNER_GROUP = 65532  # those of the runner image


def of_pod(test: DistTest) -> Manifest:
    """The file system of a new claim belongs to root: fsGroup makes it writable for the runner if the driver can."""
    security: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if test.has_own_image:
        security |= {"runAsUser": RUNNER_USER}  # most images with torch run as root, which `restricted` refuses
    is_written = any(not claim.get("readOnly") for claim in test.spec.template.claims)
    if test.spec.artifacts.persistent_volume_claim or is_written:
        # OnRootMismatch: earlier runs may have left a million files.
        security |= {"fsGroup": RUNNER_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    return security


def of_container() -> Manifest:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def of_test_container(test: DistTest) -> Manifest:
    """The context of every container, extended by what the template requests."""
    requested, security = test.spec.template.security_context, of_container()
    if requested.capabilities:
        security["capabilities"] = {"drop": ["ALL"], "add": list(requested.capabilities)}
    if requested.privileged:
        # The API server refuses privileged with the first, and the second would contradict it.
        del security["allowPrivilegeEscalation"], security["capabilities"]
        security["privileged"] = True
    if requested.run_as_user is not None:
        security["runAsUser"] = requested.run_as_user
    if requested.run_as_user == 0:
        security["runAsNonRoot"] = False  # overrides the pod's, with which the kubelet would not start the container
    return security


VOLUME = "runner"


def inject_command(test: DistTest) -> list[str]:
    """Python runs the `__main__.py` of a directory. A user's image may have no `python`, only `python3`."""
    return ["python3", naming.RUNNER_DIRECTORY] if test.has_own_image else ["python", "-m", "disttest_runner"]


def init_containers(test: DistTest) -> list[Manifest]:
    """Copy the runner out of its image, which has the operator's version."""
    if not test.has_own_image:
        return []
    container: Manifest = {
        "name": naming.INJECT_CONTAINER,
        "image": test.runner_image,
        "command": ["python", "-m", "disttest_runner.inject", naming.RUNNER_DIRECTORY],
        # Otherwise NVIDIA's runtime adds all GPUs, and fails if the driver is too old for this image's CUDA.
        "env": [{"name": name, "value": value} for name, value in environment.NO_GPUS_TO_ADD.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": of_container(),
        "volumeMounts": [{"name": VOLUME, "mountPath": naming.RUNNER_DIRECTORY}],
    }
    resources = _resources(test)
    return [container | ({"resources": resources} if resources else {})]


def inject_mounts(test: DistTest) -> list[Manifest]:
    """Read-only, so that a suite cannot change the runner of the suites after it."""
    if not test.has_own_image:
        return []
    return [{"name": VOLUME, "mountPath": naming.RUNNER_DIRECTORY, "readOnly": True}]


def inject_volumes(test: DistTest) -> list[Manifest]:
    return [{"name": VOLUME, "emptyDir": {}}] if test.has_own_image else []


def _resources(test: DistTest) -> Manifest:
    """Those of the test container: a node reserves the larger of the two, not the sum.

    A quota refuses pods with a container without resources, and the quality of service depends on all containers.
    """
    kinds = {
        # A name with a domain is a device, which the init container does not use.
        kind: {name: amount for name, amount in amounts.items() if "/" not in name}
        for kind, amounts in test.spec.template.resources.items()
    }
    return {kind: amounts for kind, amounts in kinds.items() if amounts}
