"""What the class of CUDA's devices computes from torch and NCCL, without a GPU."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from disttest_runner.process_group import device  # noqa: E402  # after the check for torch


class Library:
    """NCCL, loaded before torch's own."""

    def __init__(self, number: int, answer: int = 0) -> None:
        self.number, self.answer = number, answer

    def ncclGetVersion(self, reference: Any) -> int:  # noqa: N802  # NCCL's name
        reference._obj.value = self.number
        return self.answer


@pytest.mark.parametrize(("number", "version"), [(23007, "2.30.7"), (22907, "2.29.7"), (22105, "2.21.5")])
def test_the_version_of_the_loaded_nccl_is_read_from_the_library(number: int, version: str) -> None:
    assert device.nccl_version(lambda _: Library(number)) == version


def missing(name: str) -> object:
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.parametrize(
    "load", [missing, lambda _: object(), lambda _: Library(0), lambda _: Library(23007, answer=3)]
)
def test_a_library_that_reports_no_version_has_none(load: Callable[[str], object]) -> None:
    assert device.nccl_version(load) == ""


class Event:
    """An event of CUDA: torch creates it when it is recorded for the first time."""

    log: list[str]

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.is_created = False

    def record(self) -> None:
        self.log.append("record" if self.is_created else "create")
        self.is_created = True

    def elapsed_time(self, _: "Event") -> float:
        return 5.0


def test_nothing_but_calls_and_recorded_events_is_between_the_first_and_the_last_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in nccl-tests: calls are enqueued in order, and the host waits after the last one only."""
    log = Event.log = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("synchronize"))
    seconds = device.CudaGpu().time_calls(lambda: log.append("call"), 3)
    assert seconds == [0.005] * 3
    assert log[4:] == ["synchronize", "record", *["call", "record"] * 3, "synchronize"]
    assert log[:4] == ["create"] * 4


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
    device.CudaGpu().query()
    assert cuda.calls == ["query 0", "query 2"]


def test_every_gpu_with_a_context_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    device.CudaGpu().synchronize()
    assert cuda.calls == ["synchronize 0", "synchronize 2"]


@pytest.mark.parametrize("index", [0, 2])
def test_an_error_that_stays_with_a_context_is_raised(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCuda(monkeypatch, error_on=index)
    with pytest.raises(RuntimeError, match=ASSERT):
        device.CudaGpu().query()


def test_cuda_is_not_started_for_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, is_initialized=False)
    device.CudaGpu().query()
    device.CudaGpu().synchronize()
    assert cuda.calls == []
