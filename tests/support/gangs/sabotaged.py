"""Folders of suites in which communication is broken."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.support.gangs.sabotage import Sabotage

FILES = ("sabotage.py", "parting.py")
can_sabotage = pytest.mark.skipif(
    not hasattr(torch.library, "get_kernel"),
    reason=f"torch {torch.__version__} cannot tell its kernels (torch.library.get_kernel), so none can be wrapped",
)


def sabotage_folder(folder: Path, sabotage: Sabotage) -> None:
    """The ranks of this suite import what breaks them from its folder, as with a user's conftest."""
    for name in FILES:
        shutil.copy(Path(__file__).parent / name, folder / name)
    (folder / "conftest.py").write_text(f"""from parting import *
import sabotage

sabotage.install({sabotage.value!r})
""")
