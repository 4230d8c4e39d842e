"""What an agent gathers of a hang once it is reported: C frames, NCCL's own status, whole dumps as files.

It takes seconds, and the ranks live that much longer.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from disttest_contract.limits import cut
from disttest_contract.plan import RunPlan
from disttest_runner.diagnosis import artifacts, pyspy, ras
from disttest_runner.diagnosis.witness import Witness
from disttest_runner.log import Log
from disttest_runner.wire import Message

NATIVE_BYTES = 16 << 10  # of one rank in the report
RAS_BYTES = 16 << 10
DUMP_SECONDS = 3.0  # for one rank
DUMPS_SECONDS = 6.0  # for all of a node
WRITE_SECONDS = 10.0
RAS_FILES = {"text": "txt", "json": "json"}  # what each form's file ends in
RAS_NODE = 0  # one asks for all: the service gathers from every process of the job


class Details:
    """`versions` is filled when the zygote is warm."""

    def __init__(self, plan: RunPlan, node_index: int, node_name: str, log: Log) -> None:
        self._plan, self._node_index, self._node_name, self._log = plan, node_index, node_name, log
        self._pyspy = pyspy.PySpy(pyspy.find())
        self._told: set[str] = set()
        self.versions: dict[str, str] = {}

    async def gather(self, message: Message, witnesses: Mapping[int, Witness]) -> Message:
        """`message` names the suite, the case, and the ranks whose C frames are wanted."""
        place = artifacts.folder(self._plan, message["suite"], message["case_id"]) if self._plan.artifacts else None
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
            facts = artifacts.environment(os.environ, self.versions, message["case_id"], self._node_name)
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


async def _write_recorders(place: Path, witnesses: Mapping[int, Witness]) -> str:
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
        problem = artifacts.write(place, files)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, problem)

    threading.Thread(target=work, daemon=True).start()
    try:
        return await asyncio.wait_for(written, WRITE_SECONDS)
    except TimeoutError:
        return f"{place} takes no files within {WRITE_SECONDS:g} s"
