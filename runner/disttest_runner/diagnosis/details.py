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
DUMP_SECONDS = 3.0
WRITE_SECONDS = 10.0
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
            files |= await _recorders(witnesses)
        native, statuses = await asyncio.gather(
            self._pyspy.dump({rank: witnesses[rank].pid for rank in message["ranks"] if rank in witnesses}),
            self._ras(["text", "json"] if place else ["text"]) if message["close"] else _nothing(),
        )
        self._tell_once([self._pyspy.problem])
        if place:
            files |= {f"rank-{rank}.pyspy.txt": text for rank, text in native.items()}
            files |= {f"node-{self._node_index}.ras.{form}": text for form, text in statuses.items()}
            facts = artifacts.environment(os.environ, self.versions, message["case_id"], self._node_name)
            files[f"node-{self._node_index}.environment.txt"] = facts
            self._tell_once([await _write(place, files)])
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

    def _tell_once(self, problems: Iterable[str]) -> None:
        for problem in problems:
            if problem and problem not in self._told:
                self._told.add(problem)
                self._log.say(f"warning: {problem}")


async def _nothing() -> dict[str, str]:
    return {}


async def _recorders(witnesses: Mapping[int, Witness]) -> dict[str, str]:
    """Whole flight recorders, of ranks that answer."""
    for witness in witnesses.values():
        witness.ask({"op": "dump"}, "dump")
    answered = await asyncio.gather(*(witness.answered(DUMP_SECONDS) for witness in witnesses.values()))
    return {
        f"rank-{rank}.fr.json": str(witness.take("dump", "text"))
        for (rank, witness), has in zip(witnesses.items(), answered, strict=True)
        if has and witness.take("dump", "text")
    }


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
