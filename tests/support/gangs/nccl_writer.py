"""A backend that hands its calls to gloo, and writes a log where NCCL would, so that its readers are tested."""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.gangs import stub_device

BACKEND = "nccl-writer"
EXCERPTS = "NCCL_WRITER_EXCERPTS"  # a folder with `RANK.log` or `all.log`, which is written when a group is made


def environment(folder: Path, excerpts: Path | None = None) -> dict[str, str]:
    """Return the environment of agents whose ranks have this backend."""
    variables = stub_device.environment(folder)
    hook = folder / "sitecustomize.py"
    hook.write_text(hook.read_text().replace(stub_device.__name__.rpartition(".")[2], "nccl_writer"))
    return variables | ({EXCERPTS: str(excerpts)} if excerpts else {})


def write(text: str) -> None:
    """Append to the log as NCCL would: to the file if there is one, else to the output."""
    pattern = os.environ.get("NCCL_DEBUG_FILE", "")
    if not pattern:
        print(text, flush=True)
        return
    with Path(pattern.replace("%p", str(os.getpid())).replace("%%", "%")).open("a") as file:
        file.write(f"{text}\n")


def install(module: ModuleType) -> None:
    """Register a device and the backend with the runner and torch."""
    import torch.distributed as dist  # noqa: PLC0415 - in ranks only

    def create(store: Any, rank: int, size: int, timeout: Any) -> Any:
        folder = Path(os.environ.get(EXCERPTS, "/missing"))
        for name in (f"{rank}.log", "all.log"):
            if (folder / name).exists():
                write((folder / name).read_text().rstrip("\n"))
                break
        return dist.ProcessGroupGloo(store, rank, size, timeout)

    module.BY_BACKEND[BACKEND] = module.RankDevice()
    dist.Backend.register_backend(BACKEND, create, devices=["cpu"])
