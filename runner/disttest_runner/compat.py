"""Features of later versions of Python."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import override
else:  # in typing from Python 3.12 on

    def override(method: Callable[..., Any]) -> Callable[..., Any]:
        return method


__all__ = ["override"]
