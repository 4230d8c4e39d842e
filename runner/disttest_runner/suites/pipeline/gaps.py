"""What torch's schedules cannot do over gloo: asked of torch itself, in this process, so that nothing else may fail."""

import itertools
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]  # exported when run
from torch.distributed.pipelining import ScheduleGPipe, schedules
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

from disttest_runner.suites.pipeline.lines import Line


def expect_messages_to_oneself(schedule: Any, line: Line, rank_of: Sequence[int]) -> None:
    """Torch's older runtime sends between two stages of one rank as well, and gloo has no connection to oneself."""
    neighbours = any(one == other for one, other in itertools.pairwise(rank_of))
    if line.backend != "gloo" or isinstance(schedule, _PipelineScheduleRuntime) or not neighbours:
        return
    group: Any = dist.ProcessGroupGloo(HashStore(), 0, 1, timedelta(seconds=30))
    try:
        works = [group.send([torch.ones(1)], 0, 0), group.recv([torch.zeros(1)], 0, 0)]
        for work in works:
            work.wait()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        pytest.xfail(f"{type(schedule).__name__} sends to its own rank, which gloo refuses: {reason}")


def expect_unheard_messages(schedule: Any, line: Line, *, are_several: bool = False) -> None:
    """Older schedules wait for the last of several messages only. Gloo gives up what nobody waits for: ranks hang."""
    is_alone = isinstance(schedule, (ScheduleGPipe, _PipelineScheduleRuntime)) and not are_several
    if line.backend != "gloo" or is_alone:
        return
    works = ["one", "two"]
    messages: Any = [SimpleNamespace(op=work) for work in works]
    with mock.patch.object(dist, "batch_isend_irecv", return_value=list(works)):
        waited_for: object = schedules._batch_p2p(messages)  # noqa: SLF001 - where torch decides it
    if waited_for != works:
        pytest.xfail(
            f"of several messages {type(schedule).__name__} of torch {torch.__version__} waits for the last one only, "
            "and gloo gives up the others"
        )
