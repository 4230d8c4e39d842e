"""Waiting for containerd, wherever it was started."""

import subprocess
import sys
import time

from devcluster.realnode import configuration

START_SECONDS = 30
POLL_SECONDS = 0.05


def wait_until_ready(containerd: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    command = ["ctr", "--address", configuration.SOCKET, "version"]
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if containerd.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"containerd does not answer after {START_SECONDS} s; its exit code is {containerd.poll()}")
        time.sleep(POLL_SECONDS)
