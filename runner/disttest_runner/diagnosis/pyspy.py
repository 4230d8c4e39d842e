"""C frames of ranks that hang, by py-spy where it is installed and allowed to look into other processes."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SECONDS = 5.0  # for one rank: libtorch's symbols take most of it
AT_ONCE = 2
ERROR_CHARACTERS = 200


def find() -> str:
    """Beside the interpreter, else on PATH; empty if it is not there."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.is_file() else shutil.which("py-spy") or ""


class PySpy:
    """Remembers that it was refused, so that it is tried, and told, once."""

    def __init__(self, program: str) -> None:
        self._program = program
        self.problem = "" if program else "py-spy is not installed: hangs are shown without C frames"

    async def dump(self, pids: Mapping[int, int]) -> dict[int, str]:
        """Rank -> stacks, of those where it worked."""
        turns = asyncio.Semaphore(AT_ONCE)
        texts = await asyncio.gather(*(self._dump(pid, turns) for pid in pids.values()))
        return {rank: text for rank, text in zip(pids, texts, strict=True) if text}

    async def _dump(self, pid: int, turns: asyncio.Semaphore) -> str:
        async with turns:
            if self.problem:
                return ""
            command = [self._program, "dump", "--native", "--full-filenames", "--pid", str(pid)]
            return await asyncio.to_thread(self._run, command)

    def _run(self, command: list[str]) -> str:
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return ""  # of this rank: another may be quicker
        except OSError as error:
            self.problem = f"py-spy cannot be run ({error.strerror}): hangs are shown without C frames"
            return ""
        if done.returncode == 0:
            return done.stdout.decode(errors="replace")
        complaint = " ".join(done.stderr.decode(errors="replace").split())
        if "ermission" in complaint or "not permitted" in complaint:
            self.problem = (
                "py-spy may not look into other processes: hangs are shown without C frames; "
                f"the capability SYS_PTRACE would allow it ({complaint[:ERROR_CHARACTERS]})"
            )
        return ""
