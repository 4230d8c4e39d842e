"""Folders of suites in which communication is broken."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.support.gangs.sabotage import Sabotage

FILES = ("sabotage.py", "parting.py")


def why_no_kernels() -> str:
    """Why kernels cannot be wrapped, if so."""
    if hasattr(torch.library, "get_kernel"):
        return ""
    return f"torch {torch.__version__} cannot tell its kernels (torch.library.get_kernel), so none can be wrapped"


can_sabotage = pytest.mark.skipif(bool(why_no_kernels()), reason=why_no_kernels())


def sabotage_folder(folder: Path, sabotage: Sabotage, *, settles: str = "") -> None:
    """The ranks of this suite import what breaks them from its folder, as with a user's conftest.

    `settles` is the module whose function settle() waits for enqueued collectives.
    """
    for name in FILES:
        shutil.copy(Path(__file__).parent / name, folder / name)
    importing, settle = (f"import {settles}", f", {settles}.settle") if settles else ("", "")
    (folder / "conftest.py").write_text(f"""from parting import *
import sabotage
{importing}

sabotage.install({sabotage.value!r}{settle})
""")
