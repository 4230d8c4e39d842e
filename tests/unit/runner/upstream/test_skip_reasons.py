"""Torch's harness has reasons for up to 8 GPUs; a case of a larger gang is not run, and names how many it needs."""

import unittest
from typing import Any

import pytest

pytest.importorskip("torch")

from torch.testing._internal import common_distributed as harness

from disttest_runner.upstream import rules, torch_patches


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "TEST_SKIPS", dict(harness.TEST_SKIPS))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)


def skip_of(gpus: int) -> Exception | None:
    @harness.skip_if_lt_x_gpu(gpus)  # type: ignore[no-untyped-call, untyped-decorator]  # torch has no types here
    def test(_: Any) -> None:
        raise AssertionError

    with pytest.raises(SystemExit) as end:
        test(object())
    skips = {skip.exit_code: skip.message for skip in harness.TEST_SKIPS.values()}
    assert len(skips) == len(harness.TEST_SKIPS), "two reasons have one exit code"
    return rules.read_exit(end.value.code, rules.ExitCodes(skips=skips, error=10), traceback="")


@pytest.mark.parametrize("gpus", [9, 16])
def test_a_case_for_more_than_eight_gpus_is_not_run(gpus: int) -> None:
    torch_patches.adapt_skips(harness, world_size=16)
    expected = unittest.SkipTest(f"not run: the case requires {gpus} GPUs on each node")
    assert repr(skip_of(gpus)) == repr(expected)


def test_the_reasons_that_torch_has_are_kept() -> None:
    torch_patches.adapt_skips(harness, world_size=16)
    assert repr(skip_of(8)) == repr(unittest.SkipTest("Need at least 8 CUDA devices"))
