"""What an agent gathers of a hang once it is reported: C frames, NCCL's own status, whole dumps as files.

It takes seconds, and the ranks live that much longer.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from disttest_contract.gang.plan import RunPlan
from disttest_contract.limits import cut
from disttest_runner.diagnosis import ras
from disttest_runner.diagnosis.queries import RankQueries
from disttest_runner.output.log import Log
from disttest_runner.protocol.wire import Message

DIGEST_CHARACTERS = 16
FILE_BYTES = 64 << 20
UNSAFE = re.compile(r"[^A-Za-z0-9._-]")

# Of the environment: what steers torch and NCCL, and never a password.
SHOWN_PREFIXES = (
    "NCCL_",
    "TORCH_",
    "GLOO_",
    "CUDA_",
    "NVIDIA_",
    "OMP_",
    "PYTORCH_",
    "UCX_",
    "FI_",
    "PYTHONHASHSEED",
    "TP_",
)


def artifacts_folder(plan: RunPlan, suite: str, case_id: str) -> Path:
    """Below the directory that the plan names: equal on all nodes, which may share it."""
    digest = hashlib.sha256(case_id.encode(errors="replace")).hexdigest()[:DIGEST_CHARACTERS]
    parts = (plan.namespace, plan.name, f"attempt-{plan.attempt}", suite, digest)
    return Path(plan.artifacts).joinpath(*(UNSAFE.sub("_", part).lstrip(".") or "_" for part in parts))


def write_artifacts(place: Path, files: Mapping[str, str]) -> str:
    """Returns what went wrong, if anything did."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_bytes(text.encode(errors="replace")[:FILE_BYTES])
    except OSError as error:
        return f"what was seen of a hang could not be written to {place}: {error.strerror or error}"
    return ""


def artifacts_environment(environ: Mapping[str, str], versions: Mapping[str, str], case_id: str, node_name: str) -> str:
    """One fact a line."""
    shown = {name: value for name, value in sorted(environ.items()) if name.startswith(SHOWN_PREFIXES)}
    facts = {
        "case": case_id,
        "node": node_name,
        **{f"version of {name}": text for name, text in versions.items()},
        **shown,
    }
    return "".join(f"{name}={value}\n" for name, value in facts.items())


SECONDS = 5.0  # for one rank: libtorch's symbols take most of it
AT_ONCE = 2
ERROR_CHARACTERS = 200


def find_pyspy() -> str:
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


NATIVE_BYTES = 16 << 10  # of one rank in the report
RAS_BYTES = 16 << 10
DUMP_SECONDS = 3.0  # for one rank
DUMPS_SECONDS = 6.0  # for all of a node
WRITE_SECONDS = 10.0
RAS_FILES = {"text": "txt", "json": "json"}  # what each form's file ends in
RAS_NODE = 0  # one asks for all: the service gathers from every process of the job


class HangDumps:
    """`versions` is filled when the zygote is warm."""

    def __init__(self, plan: RunPlan, node_index: int, node_name: str, log: Log) -> None:
        self._plan, self._node_index, self._node_name, self._log = plan, node_index, node_name, log
        self._pyspy = PySpy(find_pyspy())
        self._told: set[str] = set()
        self.versions: dict[str, str] = {}

    async def gather(self, message: Message, witnesses: Mapping[int, RankQueries]) -> Message:
        """`message` names the suite, the case, and the ranks whose C frames are wanted."""
        place = artifacts_folder(self._plan, message["suite"], message["case_id"]) if self._plan.artifacts else None
        files = {f"rank-{rank}.stacks.txt": text for rank, one in witnesses.items() if (text := one.whole_stack())}
        if place:
            self._tell_once("files", await _write_recorders(place, witnesses))
        native, statuses = await asyncio.gather(
            self._pyspy.dump({rank: witnesses[rank].pid for rank in message["ranks"] if rank in witnesses}),
            self._ras(["text", "json"] if place else ["text"]) if message["close"] else _nothing(),
        )
        self._tell_once("py-spy", self._pyspy.problem)
        if place:
            files |= {f"rank-{rank}.pyspy.txt": text for rank, text in native.items()}
            files |= {f"node-{self._node_index}.ras.{RAS_FILES[form]}": text for form, text in statuses.items()}
            facts = artifacts_environment(os.environ, self.versions, message["case_id"], self._node_name)
            files[f"node-{self._node_index}.environment.txt"] = facts
            self._tell_once("files", await _write(place, files))
        return {
            "op": "details",
            "native": {rank: cut(text, NATIVE_BYTES) for rank, text in native.items()},
            "ras": cut(statuses.get("text", ""), RAS_BYTES),
            "artifacts": str(place) if place else "",
        }

    async def _ras(self, forms: Iterable[str]) -> dict[str, str]:
        """By form; why there is none stands in the place of the text."""
        where = ras.address(os.environ, uses_nccl=self._plan.backend == "nccl")
        found: dict[str, str] = {}
        if where is None or self._node_index != RAS_NODE:
            return found
        for form in forms:
            try:
                found[form] = await asyncio.to_thread(ras.status, where, form=form)
            except ras.SilentError as error:
                found.setdefault("text", f"({error})")
                break
        return found

    def _tell_once(self, kind: str, problem: str) -> None:
        """Of each kind: a full disk is full for every case."""
        if problem and kind not in self._told:
            self._told.add(kind)
            self._log.say(f"warning: {problem}")


async def _nothing() -> dict[str, str]:
    return {}


async def _write_recorders(place: Path, witnesses: Mapping[int, RankQueries]) -> str:
    """Whole flight recorders of the ranks that answered before, one by one: each may be large. Returns a problem."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DUMPS_SECONDS
    problem = ""
    for rank, witness in witnesses.items():
        if not witness.has_answered or loop.time() > deadline:
            continue
        witness.ask({"op": "dump"}, "dump")
        if await witness.answered(DUMP_SECONDS):
            problem = problem or str(witness.take("dump", "problem") or "")
            text = str(witness.take("dump", "text") or "")
            problem = problem or await _write(place, {f"rank-{rank}.fr.json": text})
        witness.forget()
    return problem


async def _write(place: Path, files: Mapping[str, str]) -> str:
    """A volume may hang; the run goes on without it, and the process ends without waiting for the thread."""
    loop = asyncio.get_running_loop()
    written: asyncio.Future[str] = loop.create_future()

    def tell(problem: str) -> None:
        if not written.done():
            written.set_result(problem)

    def work() -> None:
        problem = write_artifacts(place, files)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, problem)

    threading.Thread(target=work, daemon=True).start()
    try:
        return await asyncio.wait_for(written, WRITE_SECONDS)
    except TimeoutError:
        return f"{place} takes no files within {WRITE_SECONDS:g} s"
