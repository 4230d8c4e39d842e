"""Built-in suites compare float32 matrix products with tolerances for float32, whatever the image sets."""

import os
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from disttest_contract.gang.plan import SuitePlan  # noqa: E402 - torch was tried first
from disttest_runner.cases.rank_orders import RankOrder  # noqa: E402 - same
from disttest_runner.process_group.generation import Generation  # noqa: E402 - same

BUILTIN = SuitePlan(name="mine", builtin="replicate-compile")
OF_USER = SuitePlan(name="mine", directory="/tests")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before, environ = torch.get_float32_matmul_precision(), dict(os.environ)
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_float32_matmul_precision(before)
    os.environ.clear()
    os.environ.update(environ)


def enter(suite: SuitePlan, *, local_rank: int = 0) -> Generation:
    """Enter a generation of an image that allows TF32."""
    torch.set_float32_matmul_precision("high")  # as torch does with TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1
    order = RankOrder(
        rank=local_rank,
        local_rank=local_rank,
        node_index=0,
        world_size=2,
        ranks_per_node=2,
        generation=1,
        backend="gloo",
        case_seconds=60,
        store_host="127.0.0.1",
        store_port=1,
        suite=suite,
    )
    generation = Generation(order, None)
    generation.enter()
    return generation


def test_built_in_suites_compute_in_float32_and_say_so_once_a_node(capfd: pytest.CaptureFixture[str]) -> None:
    generation = enter(BUILTIN)
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32
    assert capfd.readouterr().err == (
        "disttest: replicate-compile computes float32 matrix products in float32, although this image or its "
        "environment allows TF32 (precision 'high')\n"
    )
    said = {"float32 matrix products": "float32 in built-in suites, although TF32 is allowed (precision 'high')"}
    assert generation.settings == said
    assert enter(BUILTIN, local_rank=1).settings == said
    assert torch.get_float32_matmul_precision() == "highest"
    assert capfd.readouterr().err == ""


def test_suites_of_users_keep_the_precision_of_the_image(capfd: pytest.CaptureFixture[str]) -> None:
    assert enter(OF_USER).settings == {}
    assert torch.get_float32_matmul_precision() == "high"
    assert capfd.readouterr().err == ""
