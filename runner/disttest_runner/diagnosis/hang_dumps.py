"""Details of a hang that an agent collects after it is reported: C frames, NCCL's status, whole dumps as files.

This takes seconds, during which the ranks keep running.
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

# Environment variables that configure torch and NCCL; none holds a password.
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
    """Return the folder of a case below the plan's directory. It is equal on all nodes, which may share it."""
    digest = hashlib.sha256(case_id.encode(errors="replace")).hexdigest()[:DIGEST_CHARACTERS]
    return _below_artifacts(plan, suite, digest)


def _below_artifacts(plan: RunPlan, *inner: str) -> Path:
    parts = (plan.namespace, plan.name, f"attempt-{plan.attempt}", *inner)
    return Path(plan.artifacts).joinpath(*(UNSAFE.sub("_", part).lstrip(".") or "_" for part in parts))


def write_artifacts(place: Path, files: Mapping[str, str]) -> str:
    """Write the files; return what went wrong, if anything."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_bytes(text.encode(errors="replace")[:FILE_BYTES])
    except OSError as error:
        return f"artifacts could not be written to {place}: {error.strerror or error}"
    return ""


def artifacts_environment(environ: Mapping[str, str], versions: Mapping[str, str], case_id: str, node_name: str) -> str:
    shown = {name: value for name, value in sorted(environ.items()) if name.startswith(SHOWN_PREFIXES)}
    facts = {
        "case": case_id,
        "node": node_name,
        **{f"version of {name}": text for name, text in versions.items()},
        **shown,
    }
    return "".join(f"{name}={value}\n" for name, value in facts.items())


SECONDS = 5.0  # for one rank, mostly for libtorch's symbols
AT_ONCE = 2
ERROR_CHARACTERS = 200


def find_pyspy() -> str:
    """Return the path of py-spy, in the interpreter's folder or on PATH; empty if there is none."""
    program = Path(sys.executable).parent / "py-spy"
    return str(program) if program.is_file() else shutil.which("py-spy") or ""


class PySpy:
    """Runs py-spy until it fails for lack of permission; `problem` then describes why."""

    def __init__(self, program: str) -> None:
        self._program = program
        self.problem = "" if program else "py-spy is not installed: hangs are shown without C frames"

    async def dump(self, pids: Mapping[int, int]) -> dict[int, str]:
        """Return stacks by rank, for the ranks where it worked."""
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
            return ""  # for this rank; others may be faster
        except OSError as failure:
            self.problem = f"py-spy cannot be run ({failure.strerror}): hangs are shown without C frames"
            return ""
        if done.returncode == 0:
            return done.stdout.decode(errors="replace")
        error = " ".join(done.stderr.decode(errors="replace").split())
        if "ermission" in error or "not permitted" in error:
            self.problem = (
                "py-spy has no permission to trace other processes: hangs are shown without C frames. "
                f"Add the capability SYS_PTRACE ({error[:ERROR_CHARACTERS]})"
            )
        return ""


NATIVE_BYTES = 16 << 10  # of one rank in the report
RAS_BYTES = 16 << 10
DUMP_SECONDS = 3.0  # for one rank
DUMPS_SECONDS = 6.0  # for all of a node
WRITE_SECONDS = 10.0
RAS_FILES = {"text": "txt", "json": "json"}  # form -> suffix of its file
NCCL_FOLDER = "nccl"
RAS_NODE = 0  # one node asks, since the service collects from all processes of the job


class HangDumps:
    """`versions` are set when the zygote is warm."""

    def __init__(self, plan: RunPlan, node_index: int, node_name: str, log: Log) -> None:
        self._plan, self._node_index, self._node_name, self._log = plan, node_index, node_name, log
        self._pyspy = PySpy(find_pyspy())
        self._warned: set[str] = set()
        self.versions: dict[str, str] = {}

    async def gather(self, message: Message, queries: Mapping[int, RankQueries]) -> Message:
        """`message` has the suite, the case, and the ranks to get C frames of."""
        place = artifacts_folder(self._plan, message["suite"], message["case_id"]) if self._plan.artifacts else None
        files = {f"rank-{rank}.stacks.txt": text for rank, one in queries.items() if (text := one.whole_stack())}
        if place:
            self._warn_once("files", await _write_recorders(place, queries))
        native, statuses = await asyncio.gather(
            self._pyspy.dump({rank: queries[rank].pid for rank in message["ranks"] if rank in queries}),
            self._ras((["text", "json"] if place else ["text"]) if message["close"] else []),
        )
        self._warn_once("py-spy", self._pyspy.problem)
        if place:
            files |= {f"rank-{rank}.pyspy.txt": text for rank, text in native.items()}
            files |= {f"node-{self._node_index}.ras.{RAS_FILES[form]}": text for form, text in statuses.items()}
            facts = artifacts_environment(os.environ, self.versions, message["case_id"], self._node_name)
            files[f"node-{self._node_index}.environment.txt"] = facts
            self._warn_once("files", await _write(place, files))
        return {
            "op": "details",
            "native": {rank: cut(text, NATIVE_BYTES) for rank, text in native.items()},
            "ras": cut(statuses.get("text", ""), RAS_BYTES),
            "artifacts": str(place) if place else "",
        }

    async def keep(self, files: Mapping[str, str]) -> None:
        """Write logs of NCCL, if there are any, next to the folders of the suites."""
        if files:
            self._warn_once("files", await _write(_below_artifacts(self._plan, NCCL_FOLDER), files))

    async def _ras(self, forms: Iterable[str]) -> dict[str, str]:
        """Return the status by form; `text` has the reason if there is none."""
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

    def _warn_once(self, kind: str, problem: str) -> None:
        """Warn once of each kind of problem, which most likely concerns every case."""
        if problem and kind not in self._warned:
            self._warned.add(kind)
            self._log.say(f"warning: {problem}")


async def _write_recorders(place: Path, queries: Mapping[int, RankQueries]) -> str:
    """Write whole flight recorders of ranks that answer, one by one since they may be large. Return a problem."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DUMPS_SECONDS
    problem = ""
    for rank, one in queries.items():
        if not one.has_answered or loop.time() > deadline:
            continue
        one.ask({"op": "dump"}, "dump")
        if await one.answered(DUMP_SECONDS):
            problem = problem or str(one.take("dump", "problem") or "")
            text = str(one.take("dump", "text") or "")
            problem = problem or await _write(place, {f"rank-{rank}.fr.json": text})
        one.forget()
    return problem


async def _write(place: Path, files: Mapping[str, str]) -> str:
    """Write the files in a daemon thread, since a volume may hang: neither the run nor the exit waits for it."""
    loop = asyncio.get_running_loop()
    written: asyncio.Future[str] = loop.create_future()

    def finish(problem: str) -> None:
        if not written.done():
            written.set_result(problem)

    def work() -> None:
        problem = write_artifacts(place, files)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(finish, problem)

    threading.Thread(target=work, daemon=True).start()
    try:
        return await asyncio.wait_for(written, WRITE_SECONDS)
    except TimeoutError:
        return f"{place} did not accept the files within {WRITE_SECONDS:g} s"
