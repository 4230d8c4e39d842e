"""Lets unmodified test files of PyTorch run in ranks that exist already: no process is spawned, each rank plays itself.

Nothing of it is loaded before a suite imports torch's test harness.
"""

from disttest_runner.upstream.install import ImportOrder, install
from disttest_runner.upstream.single_rank import SinglesOnce

__all__ = ["ImportOrder", "SinglesOnce", "install"]
