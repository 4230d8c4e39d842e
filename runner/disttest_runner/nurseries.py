"""The zygotes of a node: one for each environment that suites ask for, since torch reads it when it is imported.

The zygote of the next suite imports while the cases of this one run; one that no later suite needs is ended.
"""

import asyncio
from collections.abc import Callable, Mapping

from disttest_contract.plan import RunPlan
from disttest_runner import orders
from disttest_runner.nursery import Events, Nursery, Zygote, ZygoteEndedError, start_zygote

WARM_SHARE = 0.9  # of the time that a gang has to collect: the leader should hear the reason before it gives up

Key = tuple[tuple[str, str], ...]


def key(environment: Mapping[str, str]) -> Key:
    """Equal for suites that can share a zygote."""
    return tuple(sorted(environment.items()))


class Nurseries:
    """`first` was started before anything else of the agent; its suite is the plan's first one."""

    def __init__(self, plan: RunPlan, first: Zygote, events: Events) -> None:
        self._plan, self._events = plan, events
        self._keys = [key(orders.environment(plan, suite)) for suite in plan.suites]
        self._open: dict[Key, Nursery] = {self._keys[0]: Nursery(first, events)}
        self._preloaded: set[str] = set()

    async def attach(self, ended: Callable[[str], None]) -> None:
        """`ended` is called if the first zygote ends before it is warm: the image is wrong, or the node."""
        first = self._open[self._keys[0]]
        await first.attach()

        def on_warm(warm: asyncio.Future[None]) -> None:
            if not warm.cancelled() and (error := warm.exception()):
                ended(str(error))

        first.warm.add_done_callback(on_warm)

    async def of_suite(self, index: int) -> Nursery:
        """A warm one. Raises ZygoteEndedError if it ended before it was."""
        wanted = self._keys[index]
        for unneeded in self._open.keys() - set(self._keys[index:]):
            self._open.pop(unneeded).end()
        nursery = self._open.get(wanted)
        if nursery is None or nursery.is_lost:
            nursery = await self._start(index)
        seconds = WARM_SHARE * max(orders.MIN_COLLECT_SECONDS, self._plan.join_seconds)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(nursery.warm)
        except TimeoutError:
            self._open.pop(wanted).end()
            raise ZygoteEndedError(f"importing what the suite needs was not finished after {seconds:.0f} s") from None
        return nursery

    async def prepare_for_later(self, index: int) -> None:
        """Have imported, while this suite's cases run, what later ones need."""
        later = self._plan.suites[index + 1 :]
        mine = [suite for suite, one in zip(later, self._keys[index + 1 :], strict=True) if one == self._keys[index]]
        modules = dict.fromkeys(module for suite in mine for module in orders.preload(suite))
        modules = {module: None for module in modules if module not in self._preloaded}
        if modules and self._keys[index] in self._open:
            self._preloaded.update(modules)
            self._open[self._keys[index]].preload(tuple(modules))
        following = next((n for n in range(index + 1, len(self._keys)) if self._keys[n] != self._keys[index]), None)
        if following is not None and self._keys[following] not in self._open:
            await self._start(following)

    async def _start(self, index: int) -> Nursery:
        suite = self._plan.suites[index]
        zygote = start_zygote(orders.preload(suite), orders.environment(self._plan, suite))
        nursery = self._open[self._keys[index]] = Nursery(zygote, self._events)
        await nursery.attach()
        return nursery

    def end(self) -> None:
        for nursery in self._open.values():
            nursery.end()
