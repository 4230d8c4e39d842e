"""Custom images: the runner is copied into them, and images that cannot run it are reported."""

import pytest

from tests.support.clusters.cluster import RUNNER_IMAGE, SessionCluster
from tests.support.gangs.foreign_images import NO_PYTHON, OLD_PYTHON, TORCH_ONLY
from tests.support.operators.operator import OperatorProcess, StartOperator, config_map, disttest, finished

RUNNER = "/opt/disttest/runner"
WHERE = f"""
import pathlib
import sys

import pytest
import torch

import disttest_runner

def test_the_runner_is_not_of_the_image(gang):
    for module in (pytest, disttest_runner):
        assert pathlib.Path(module.__file__).is_relative_to("{RUNNER}")

def test_torch_is_of_the_image():
    assert pathlib.Path(torch.__file__).is_relative_to(sys.prefix)
    assert sys.prefix.endswith("/torch-only")

def test_nothing_of_the_runner_can_be_changed():
    with pytest.raises(OSError, match="Read-only file system"):
        pathlib.Path("{RUNNER}/disttest_runner/__init__.py").write_text("")

def test_together(process_group):
    torch.distributed.all_reduce(torch.ones(1))
"""


@pytest.fixture(autouse=True)
def _images_are_there(cluster: SessionCluster) -> None:
    if cluster.dev is None:
        pytest.skip("these images are directories of this machine, which only a local test cluster can use")


# The first in this file: the operator of the others would have the Lease.
@pytest.mark.parametrize(
    ("runner_image", "reason", "words"),
    [
        ("registry.invalid/runner:1", "ImageUnavailable", "Image 'registry.invalid/runner:1' cannot be pulled for pod"),
        (TORCH_ONLY, "ContainerStartError", "No module named 'disttest_runner'"),
    ],
    ids=["away", "without the runner"],
)
def test_a_wrong_image_of_the_runner_is_the_operators_to_correct(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str, runner_image: str, reason: str, words: str
) -> None:
    flags = ("--runner-image", runner_image, "--image-pull-timeout-seconds=3")
    with start_operator(*flags, log="wrong-image.log"):
        cluster.apply(disttest(namespace, "unlucky", image=RUNNER_IMAGE))
        status = finished(cluster, namespace, "unlucky", timeout_seconds=40)
    assert (status["verdict"], status["reason"]) == ("Errored", reason), status
    assert words in status["message"]
    assert "--runner-image of the operator" in status["message"]


def test_a_gang_runs_in_an_image_that_has_only_torch(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(config_map(namespace, "where", WHERE))
    own = {"name": "where", "configMap": {"name": "where"}, "env": [{"name": "PYTHONPATH", "value": "/no/such/folder"}]}
    quick = {"name": "collectives", "select": "barrier"}
    resources = {"template": {"spec": {"resources": {"limits": {"memory": "4Gi"}, "requests": {"cpu": 1}}}}}
    cluster.apply(disttest(namespace, "mine", image=TORCH_ONLY, suites=[own, quick], **resources))
    status = finished(cluster, namespace, "mine", timeout_seconds=90)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status
    assert {suite["name"]: suite["cases"]["passed"] for suite in status["suites"]}["where"] == 4
    assert status["stepSeconds"]["pulled"] >= 0
    pods = cluster.find("pods", namespace)
    assert len(pods) == 2
    for pod in pods:
        [inject] = pod["status"]["initContainerStatuses"]
        assert (inject["image"], inject["state"]["terminated"]["reason"]) == (RUNNER_IMAGE, "Completed")


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (NO_PYTHON, ("did not start in image", "spec.image requires python3 on its PATH (3.11 or newer), torch")),
        (OLD_PYTHON, ("the image has Python 3.8", "Use an image with a newer Python")),
    ],
    ids=["no Python", "old Python"],
)
def test_an_image_that_cannot_run_the_runner_is_named_with_what_it_lacks(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, image: str, words: tuple[str, ...]
) -> None:
    cluster.apply(disttest(namespace, "lacking", image=image))
    status = finished(cluster, namespace, "lacking", timeout_seconds=40)
    assert (status["verdict"], status["reason"]) == ("Errored", "ContainerStartError"), status
    assert all(word in status["message"] for word in (f"image {image!r}", *words)), status
