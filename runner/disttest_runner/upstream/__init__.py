"""Lets unmodified test files of PyTorch run in ranks that exist already: no process is spawned, each rank plays itself.

Nothing of it is loaded before a suite imports torch's test harness.
"""

from disttest_runner.upstream.imports import ImportOrder
from disttest_runner.upstream.install import install
from disttest_runner.upstream.single import SinglesOnce

__all__ = ["ImportOrder", "SinglesOnce", "install"]
