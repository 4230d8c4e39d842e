"""The table of `make gpu`: a row for each claim, which was proved, failed or not proved. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from disttest_cli.formats import gfm
from disttest_contract.text.formatting import counted
from disttest_runner.agent.accelerator import SHARE_GPUS

VISIBLE = "CUDA_VISIBLE_DEVICES"
SHARES_FROM = (2, 30)  # the first NCCL that can put several ranks on one GPU
RANKS_ON_ONE_GPU = 2
ALL_PROVED, ROW_FAILED, NOT_ALL_PROVED = 0, 1, 3  # exit codes
UNKNOWN = "unknown"
DETAILS_BYTES = 400  # of a cell: commands must not be cut


class State(StrEnum):
    PROVED = "proved"
    FAILED = "failed"
    NOT_PROVED = "not proved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    claim: str
    state: State = State.NOT_PROVED
    details: str = "it did not run"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The setup, the call or the teardown of a row's test, in pytest's words."""

    when: str
    outcome: str
    text: str = ""  # of an error or a skip
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    gpus: tuple[str, ...] = ()
    driver: str = ""
    driver_cuda: str = ""
    torch: str = ""
    torch_cuda: str = ""
    nccl: str = ""
    backend: str = "nccl"
    ranks: int = 0
    transport: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """How many ranks the rows have, and with which environment; `missing` is what a second rank would need."""

    number: int
    environ: Mapping[str, str]
    missing: str = ""


def choose_ranks(gpus: int, *, nccl: str, torch_cuda: str, environ: Mapping[str, str]) -> Ranks:
    """Choose one rank for each GPU. Two ranks share a single GPU if the loaded NCCL allows that."""
    visible = {VISIBLE: environ.get(VISIBLE, ",".join(map(str, range(gpus))))}
    if gpus != 1:
        return Ranks(number=gpus, environ=visible)
    if _release(nccl) < SHARES_FROM:
        package = f"nvidia-nccl-cu{torch_cuda.partition('.')[0]}"
        return Ranks(
            number=1,
            environ=visible,
            missing=f"two ranks on one GPU need NCCL 2.30 or newer, but NCCL {nccl or UNKNOWN} is loaded. Unpack "
            f"version 2.30 or newer of the package {package} and run "
            "LD_PRELOAD=/path/to/nvidia/nccl/lib/libnccl.so.2 make gpu",
        )
    if environ.get(SHARE_GPUS, "1") != "1":
        missing = f"two ranks on one GPU need {SHARE_GPUS}=1, but it is {environ[SHARE_GPUS]!r}"
        return Ranks(number=1, environ=visible, missing=missing)
    return Ranks(number=RANKS_ON_ONE_GPU, environ=visible | {SHARE_GPUS: "1"})


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def why_no_gpu(machine: Machine, environ: Mapping[str, str]) -> str:
    """Return why torch finds no GPU: a sentence that ends `make gpu`."""
    head = "Nothing was proved: torch finds no GPU on this machine"
    if not machine.torch_cuda:
        return f"{head}, because torch {machine.torch} is built without CUDA. Install torch with CUDA."
    if VISIBLE in environ:
        return f"{head}, and {VISIBLE} is {environ[VISIBLE]!r}. Unset it, or set it to GPUs of this machine."
    if machine.gpus:
        return (
            f"{head}, although its driver ({machine.driver or UNKNOWN}) finds {counted(len(machine.gpus), 'GPU')}. "
            "Run python -c 'import torch; torch.cuda.init()' to see the error."
        )
    return f"{head}, and there is no NVIDIA driver. Run `make gpu` on a machine where nvidia-smi lists GPUs."


def row(claim: str, phases: Sequence[Phase], details: Iterable[str] = ()) -> Row:
    """Return the row of a test: an error of any phase fails it, and only a call that passed proves it."""
    seconds = sum(phase.seconds for phase in phases)
    for outcome, state in (("failed", State.FAILED), ("skipped", State.NOT_PROVED)):
        if found := [phase for phase in phases if phase.outcome == outcome]:
            return Row(claim=claim, state=state, details=found[0].text, seconds=seconds)
    if any(phase.when == "call" and phase.outcome == "passed" for phase in phases):
        return Row(claim=claim, state=State.PROVED, details=", ".join(details), seconds=seconds)
    return Row(claim=claim)


def exit_code(rows: Iterable[Row], machine: Machine) -> int:
    """Rows on the CPU prove nothing, so that only the exit code of failed rows is the same there."""
    states = {one.state for one in rows}
    if State.FAILED in states:
        return ROW_FAILED
    return ALL_PROVED if states == {State.PROVED} and machine.backend == "nccl" else NOT_ALL_PROVED


def render(rows: Sequence[Row], machine: Machine, seconds: float) -> str:
    """Return the table as Markdown."""
    words = {State.PROVED: "proved", State.FAILED: "failed", State.NOT_PROVED: "not proved"}
    if machine.backend != "nccl":
        words[State.PROVED] = "passed on the CPU"
    counts = [f"{sum(one.state is state for one in rows)} {word}" for state, word in words.items()]
    title = f"`make gpu`: {', '.join(counts)} in {seconds:.0f} s"
    words[State.FAILED] = "**failed**"
    cells = [(one.claim, words[one.state], gfm.cell(one.details, DETAILS_BYTES), f"{one.seconds:.0f}") for one in rows]
    table = gfm.table(("Claim", "Result", "Details", "Seconds"), cells, numbers=frozenset({3}))
    return f"{title}\n\n{_versions(machine)}\n\n{table}"


def _versions(machine: Machine) -> str:
    names = dict.fromkeys(machine.gpus)
    gpus = ", ".join(f"{machine.gpus.count(name)} x {name}" for name in names) or "none"
    facts = {
        "GPUs": gpus,
        "ranks": str(machine.ranks),
        "torch": f"{machine.torch or UNKNOWN} (CUDA {machine.torch_cuda or 'none'})",
        "driver": f"{machine.driver} (CUDA {machine.driver_cuda or UNKNOWN})" if machine.driver else UNKNOWN,
        "NCCL": machine.nccl or UNKNOWN,
        "transport": machine.transport or UNKNOWN,
    }
    return "\n".join(f"- {name}: {gfm.code(text)}" for name, text in facts.items())
