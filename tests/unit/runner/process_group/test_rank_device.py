"""What ranks ask of CUDA, with CUDA's functions replaced."""

import pytest
import torch

from disttest_runner.process_group.device import CudaGpu

ASSERT = "CUDA error: device-side assert triggered"


class FakeCuda:
    """Three GPUs; this process has a context on the first and the last."""

    def __init__(self, patch: pytest.MonkeyPatch, *, is_initialized: bool = True, error_on: int | None = None) -> None:
        self.calls: list[str] = []
        self._error_on = error_on
        patch.setattr("torch.cuda.is_initialized", lambda: is_initialized)
        patch.setattr("torch.cuda.device_count", lambda: 3)
        patch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda index: index != 1, raising=False)
        patch.setattr("torch.cuda.synchronize", lambda index: self._call("synchronize", index))
        patch.setattr("torch.cuda.current_stream", lambda index: FakeStream(self, index))

    def _call(self, name: str, index: int) -> None:
        self.calls.append(f"{name} {index}")
        if index == self._error_on:
            raise RuntimeError(ASSERT)

    def query(self, index: int) -> None:
        self._call("query", index)


class FakeStream:
    def __init__(self, cuda: FakeCuda, index: int) -> None:
        self.query = lambda: cuda.query(index)


def test_every_gpu_with_a_context_is_asked_for_an_error_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    CudaGpu().query()
    assert cuda.calls == ["query 0", "query 2"]


def test_every_gpu_with_a_context_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    CudaGpu().synchronize()
    assert cuda.calls == ["synchronize 0", "synchronize 2"]


@pytest.mark.parametrize("index", [0, 2])
def test_an_error_that_stays_with_a_context_is_raised(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCuda(monkeypatch, error_on=index)
    with pytest.raises(RuntimeError, match=ASSERT):
        CudaGpu().query()


def test_cuda_is_not_started_for_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, is_initialized=False)
    CudaGpu().query()
    CudaGpu().synchronize()
    assert cuda.calls == []
