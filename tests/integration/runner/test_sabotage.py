"""The built-in suites notice broken collectives: with them sabotaged every case that communicates goes red.

A suite is run as a user's folder whose conftest breaks torch.distributed first; the product knows nothing of it.
"""

from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.report import CaseResult
from tests.integration.runner.gang import Gang, builtin, make_plan, suite_of

MODULES = {"collectives": "collectives", "fully-shard-autograd": "fully_shard_autograd"}

# Patches go to both namespaces: objects are gathered by functions that look the others up in their own module.
CONFTEST = """
import pytest, torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

KIND = {kind!r}
CHOSEN = {chosen!r}

class Done:
    def wait(self, *_):
        return True

def nothing(*_, async_op=False, **__):
    return Done() if async_op else None

def without_rank_1(original, place):
    def call(*args, **kwargs):
        if dist.get_rank() == 1:
            args = [torch.zeros_like(one) if n == place else one for n, one in enumerate(args)]
            if "input" in kwargs:
                kwargs["input"] = torch.zeros_like(kwargs["input"])
            if "input_tensor" in kwargs:
                kwargs["input_tensor"] = torch.zeros_like(kwargs["input_tensor"])
        return original(*args, **kwargs)
    return call

def zeroed_on_rank_1(original):
    def call(tensor, *args, **kwargs):
        if dist.get_rank() == 1:
            tensor.zero_()
        return original(tensor, *args, **kwargs)
    return call

def doubled(original):
    def call(*args, async_op=False, **kwargs):
        original(*args, **kwargs)
        output = args[0] if args else kwargs.get("output_tensor", kwargs.get("output"))
        output.mul_(2)
        return Done() if async_op else None
    return call

ALL = ["all_reduce", "all_gather", "all_gather_object", "all_gather_into_tensor", "all_gather_single",
       "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single",
       "broadcast", "barrier"]
GATHERS = ["all_gather_into_tensor", "all_gather_single"]
SCATTERS = ["reduce_scatter_tensor", "reduce_scatter_single"]

def patches():
    real = {{name: getattr(dist, name) for name in ALL if hasattr(dist, name)}}
    if KIND == "nothing":
        return {{**dict.fromkeys(real, nothing), "batch_isend_irecv": lambda operations: []}}
    if KIND == "without-rank-1":
        found = {{name: without_rank_1(real[name], 1) for name in GATHERS + SCATTERS if name in real}}
        return found | {{"all_reduce": zeroed_on_rank_1(real["all_reduce"])}}
    if KIND == "none":
        return {{}}
    return {{name: doubled(real[name]) for name in ["all_reduce", *SCATTERS] if name in real}}

@pytest.fixture(autouse=True)
def sabotage(process_group, monkeypatch):
    for name, patch in patches().items():
        for module in (dist, distributed_c10d):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, patch)

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if any(word in item.nodeid for word in CHOSEN)]
"""

SUMS = ["test_all_reduce_sum[float32", "test_all_reduce_sum[bfloat16", "two_at_once", "test_reduce_scatter"]
GATHERED = [*SUMS, "test_all_gather[float32", "test_all_gather[int64"]
RUNS = {
    "collectives that do nothing": ("collectives", "nothing", ["test_"]),
    "collectives without rank 1": ("collectives", "without-rank-1", GATHERED),
    "collectives that double sums": ("collectives", "doubled", SUMS),
    "fully-shard-autograd with nothing done": ("fully-shard-autograd", "nothing", ["test_"]),
    "fully-shard-autograd without rank 1": ("fully-shard-autograd", "without-rank-1", ["test_"]),
    "fully-shard-autograd with doubled sums": ("fully-shard-autograd", "doubled", ["test_"]),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[CaseResult, ...]]:
    """All sabotages as suites of one run. The built-in suite before them has the zygote import what they need, once."""
    folder = tmp_path_factory.mktemp("sabotage")
    suites = [builtin("fully-shard-autograd")]
    for name, (suite, kind, chosen) in RUNS.items():
        place = folder / name.replace(" ", "-")
        suites.append(suite_of(place, f"from disttest_runner.suites.{MODULES[suite]} import *\n", name=name))
        (place / "conftest.py").write_text(CONFTEST.format(kind=kind, chosen=chosen))
    report = Gang(make_plan(*suites, nodes=1, ranks=2, run_seconds=300), folder).run(seconds=300)
    return {suite.name: suite.cases for suite in report.suites}


@pytest.mark.parametrize("name", RUNS)
def test_every_communicating_case_goes_red(results: dict[str, tuple[CaseResult, ...]], name: str) -> None:
    cases = results[name]
    assert cases
    # what gloo cannot do is not done here either
    green = [case.id for case in cases if case.outcome is not Outcome.FAILED and "float8" not in case.id]
    assert not green, f"{len(green)} of {len(cases)} cases did not notice"


def test_the_same_folders_without_sabotage_are_green(tmp_path: Path) -> None:
    """Else everything above could be red for another reason."""
    suites = [builtin("fully-shard-autograd")]
    for suite, module in MODULES.items():
        suites.append(suite_of(tmp_path / suite, f"from disttest_runner.suites.{module} import *\n", name=suite))
        (tmp_path / suite / "conftest.py").write_text(CONFTEST.format(kind="none", chosen=["test_"]))
    report = Gang(make_plan(*suites, nodes=1, ranks=2), tmp_path).run()
    assert report.verdict is Verdict.PASSED, report.message
