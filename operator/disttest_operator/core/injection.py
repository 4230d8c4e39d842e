"""How the runner comes into an image that has only torch: an init container copies it into a volume of the pod."""

from disttest_operator.core import naming, security
from disttest_operator.core.model import DistTest, Manifest

VOLUME = "runner"


def command(test: DistTest) -> list[str]:
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
        "securityContext": security.of_container(),
        "volumeMounts": [{"name": VOLUME, "mountPath": naming.RUNNER_DIRECTORY}],
    }
    resources = _resources(test)
    return [container | ({"resources": resources} if resources else {})]


def mounts(test: DistTest) -> list[Manifest]:
    """Of the test's container, which only reads: a suite cannot change the runner of the suites after it."""
    if not test.has_own_image:
        return []
    return [{"name": VOLUME, "mountPath": naming.RUNNER_DIRECTORY, "readOnly": True}]


def volumes(test: DistTest) -> list[Manifest]:
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
