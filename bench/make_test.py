"""How long `make test` takes."""

import subprocess
import time
from pathlib import Path

from bench.figure import Figure

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 12 * 60


def measure() -> list[Figure]:
    """On a machine that does nothing else, with warm caches. Of tests that fail nothing is measured."""
    started = time.monotonic()
    code = subprocess.run(["make", "-C", ROOT, "test"], check=False).returncode
    seconds = time.monotonic() - started
    if code:
        raise SystemExit(f"bench: `make test` ended with exit code {code} after {seconds:.0f} s")
    return [Figure(name="make_test", value=round(seconds), unit="s", compare="<=", goal=MOST_SECONDS)]
