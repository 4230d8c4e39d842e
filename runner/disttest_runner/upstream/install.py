"""Puts the adapter in place as soon as a suite, or the zygote before it, has imported torch's harness."""

from types import ModuleType
from typing import TYPE_CHECKING

from disttest_runner.upstream import rpc
from disttest_runner.upstream.imports import when_imported

if TYPE_CHECKING:
    from disttest_runner.generation import Generation
    from disttest_runner.upstream.play import Player

HARNESS = "torch.testing._internal.common_distributed"
SPAWN_DRIVER = "torch.testing._internal.distributed.distributed_test"


def install(generation: "Generation") -> None:
    """In a rank, before it collects."""

    def adapt(harness: ModuleType) -> None:
        # Imported late: a plain suite pays for nothing of this.
        from disttest_runner.upstream import continuous, multi_process, multi_threaded, seeds  # noqa: PLC0415
        from disttest_runner.upstream.play import Player  # noqa: PLC0415

        player = Player(generation, harness)
        seeds.adapt(player.common_utils)
        multi_process.adapt(player)
        continuous.adapt(player)
        multi_threaded.adapt(player)
        players.append(player)

    def adapt_driver(driver: ModuleType) -> None:
        from disttest_runner.upstream import spawn_driver  # noqa: PLC0415

        spawn_driver.adapt(players[0], driver)

    players: list[Player] = []
    when_imported(HARNESS, adapt)
    when_imported(SPAWN_DRIVER, adapt_driver)  # it imports the harness, which is adapted while it is only half there
    when_imported(rpc.RPC, lambda module: rpc.adapt(generation, module))
