"""Runs unmodified test files of PyTorch in the ranks of a gang: no process is spawned, each rank runs its own part.

The adapters are loaded when a suite imports torch's test harness.
"""

from disttest_runner.upstream.install import ImportOrder, install
from disttest_runner.upstream.single_rank import SinglesOnce

__all__ = ["ImportOrder", "SinglesOnce", "install"]
