"""The process state that a case can change and the next would inherit: read in microseconds, restored if changed."""

import _signal  # type: ignore[import-not-found]  # the public module makes an enum of every handler
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

PYTEST_CURRENT_TEST = b"PYTEST_CURRENT_TEST"  # set by pytest in every phase
SIGNALS = tuple({*range(1, 32)} - {signal.SIGKILL, signal.SIGSTOP})  # no real-time signals
State = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StatePart:
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]


def _environment() -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = dict(os.environ._data)  # type: ignore[attr-defined]  # noqa: SLF001 - public copies decode every value, which takes 30 times as long
    found.pop(PYTEST_CURRENT_TEST, None)
    return found


def _set_environment(wanted: dict[bytes, bytes]) -> None:
    for name in _environment().keys() - wanted.keys():
        del os.environb[name]
    os.environb.update(wanted)


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a Path costs more than the call
    except FileNotFoundError:  # it was removed
        return ""


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _handlers() -> tuple[Any, ...]:
    return tuple(map(_signal.getsignal, SIGNALS))


def _set_handlers(wanted: tuple[Any, ...]) -> None:
    for number, before, now in zip(SIGNALS, wanted, _handlers(), strict=True):
        if before is not now and before is not None:  # None: not set from Python
            signal.signal(number, before)


def _set_timer(wanted: bool) -> None:  # noqa: FBT001 - a state like the others
    if not wanted:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _set_filters(wanted: list[Any]) -> None:
    warnings.filters[:] = wanted  # type: ignore[index]  # a list, though typed as a sequence
    for name in ("_filters_mutated", "_filters_mutated_lock_held"):  # the latter from Python 3.14 on
        if hasattr(warnings, name):
            getattr(warnings, name)()


def _default_device() -> Any:
    return getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)


def _set_streams(wanted: tuple[Any, ...]) -> None:
    sys.stdin, sys.stdout, sys.stderr = wanted


def _set_path(wanted: list[str]) -> None:
    sys.path[:] = wanted


def _set_hooks(wanted: tuple[Any, Any]) -> None:
    sys.excepthook, threading.excepthook = wanted


def _set_logging(wanted: tuple[int, int]) -> None:
    logging.disable(wanted[0])
    logging.root.setLevel(wanted[1])


PARTS = (
    StatePart("environment", _environment, _set_environment),
    StatePart("working directory", _directory, lambda wanted: os.chdir(wanted or "/")),
    StatePart("umask", _umask, os.umask),  # type: ignore[arg-type]  # what it returns is of no use here
    StatePart("signal handlers", _handlers, _set_handlers),
    StatePart(
        "signal mask",
        lambda: _signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda wanted: _signal.pthread_sigmask(signal.SIG_SETMASK, wanted),
    ),
    StatePart("interval timer", lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0, _set_timer),
    StatePart("module path", lambda: list(sys.path), _set_path),
    StatePart("warnings filters", lambda: list(warnings.filters), _set_filters),
    StatePart("standard streams", lambda: (sys.stdin, sys.stdout, sys.stderr), _set_streams),
    StatePart("trace function", sys.gettrace, sys.settrace),
    StatePart("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    StatePart("excepthook", lambda: (sys.excepthook, threading.excepthook), _set_hooks),
    StatePart("logging", lambda: (logging.root.manager.disable, logging.root.level), _set_logging),
    StatePart("default dtype", torch.get_default_dtype, torch.set_default_dtype),
    StatePart(
        "default device", _default_device, lambda wanted: torch.set_default_device(getattr(wanted, "device", None))
    ),
    StatePart("gradient mode", torch.is_grad_enabled, torch._C._set_grad_enabled),  # noqa: SLF001 - the public one is a context
    StatePart("deterministic algorithms", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    StatePart("threads of torch", torch.get_num_threads, torch.set_num_threads),
)


def read() -> State:
    return tuple([part.read() for part in PARTS])


def restore(wanted: State) -> list[str]:
    """Restore the parts that differ and return their names."""
    now = read()
    if now == wanted:
        return []
    changed = []
    for part, before, found in zip(PARTS, wanted, now, strict=True):
        if before != found:
            part.write(before)
            changed.append(part.name)
    return changed
