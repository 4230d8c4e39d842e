"""An accelerator that is not there: calls only enqueue work, as on CUDA, and the work runs on the CPU, late.

The backend `stub` hands each collective to gloo in a thread. Its works are done as soon as they are waited for; that
they have ended, or failed, is seen by `synchronize()` only.
"""

import functools
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

BACKEND = "stub"
DEVICE = "disttest_runner.process_group.device"
LATE_SECONDS = 0.02

# Of the agents: once a rank has imported the devices, this one has a row.
HOOK = f"""
import importlib.machinery, sys

class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        if name != "{DEVICE}":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            from tests.support.gangs import stub_device
            stub_device.install(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
"""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of agents whose ranks know the device."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(HOOK)
    root = Path(__file__).parents[3]
    return {"PYTHONPATH": f"{folder}:{root}"}


class Stream:
    """Work in the order in which it was enqueued. After the first error nothing runs, as in a poisoned context."""

    def __init__(self) -> None:
        self.error = ""
        self._jobs: queue.Queue[Callable[[], object]] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def enqueue(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)

    def synchronize(self) -> None:
        self._jobs.join()
        if self.error:
            raise RuntimeError(self.error)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                if not self.error:
                    time.sleep(LATE_SECONDS)
                    job()
            except Exception as error:  # noqa: BLE001 - of whatever kind, it is the device's
                self.error = str(error)
            finally:
                self._jobs.task_done()


@functools.cache
def stream() -> Stream:
    """Return the only stream of this process. Called in ranks only: a zygote must have no thread."""
    return Stream()


def fail(message: str) -> None:
    """Enqueue a kernel that fails, such as one with a device-side assert."""

    def kernel() -> None:
        raise RuntimeError(message)

    stream().enqueue(kernel)


def install(module: ModuleType) -> None:
    """Register device and backend with the runner and torch."""
    from tests.support.gangs import stub_group  # noqa: PLC0415 - imports torch: in ranks only

    class StubDevice(module.RankDevice):  # type: ignore[misc, name-defined]  # the module is not imported yet
        def synchronize(self) -> None:
            stream().synchronize()

    module.BY_BACKEND[BACKEND] = StubDevice()
    stub_group.register(BACKEND, stream)
