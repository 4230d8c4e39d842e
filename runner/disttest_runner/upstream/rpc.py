"""torch.distributed.rpc: the context of its remote references keeps the first agent of a process for ever."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from disttest_runner.generation import Generation

RPC = "torch.distributed.rpc"
SPENT = "the case has used RPC, which a process can do only once"


def adapt(generation: "Generation", module: ModuleType) -> None:
    """A second agent would hang when it waits for references, so the next case gets new ranks."""
    rpc: Any = module
    original = getattr(rpc, "_init_rpc_backend", None)
    if original is None:  # a build without RPC
        return

    def init(*args: Any, **kwargs: Any) -> Any:
        generation.spent = SPENT
        return original(*args, **kwargs)

    rpc._init_rpc_backend = init
