"""Lets plain test files make process groups from the environment as often as they like.

Torch's own handler puts every group of a process under the same keys of the store, so a second group would meet the
addresses of the first one. Under torchrun that is no issue, since a program makes one group.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]  # exported when run


class Meetings:
    """Each `init_process_group()` of a case meets under keys of its own; ranks must make equally many, as ever."""

    def __init__(self) -> None:
        self._case = 0
        self._groups = 0
        # torch.distributed.rendezvous is a function as well, which hides the module
        module = importlib.import_module("torch.distributed.rendezvous")
        self._original: Callable[..., Iterator[tuple[Store, int, int]]] = module._rendezvous_handlers["env"]  # noqa: SLF001 - registering anew is refused
        module._rendezvous_handlers["env"] = self._meet  # noqa: SLF001 - same

    def enter_case(self, number: int) -> None:
        self._case, self._groups = number, 0

    def _meet(self, url: str, *args: Any, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
        self._groups += 1
        for store, rank, world_size in self._original(url, *args, **kwargs):
            yield PrefixStore(f"environment/{self._case}/{self._groups}", store), rank, world_size
