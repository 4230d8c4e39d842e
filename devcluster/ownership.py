"""Ending with one's parent, even if that is killed."""

import ctypes
import os
import signal

from devcluster.errors import ClusterError

PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Asks the kernel for a signal when the thread that started this process ends."""
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise ClusterError(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended a moment ago, before the kernel knew of our wish
        os.kill(os.getpid(), number)
