"""`bare_pytest.py FOLDER`: what pytest alone takes for a case of this folder, in milliseconds; nothing of ours."""

import sys
import time

import pytest

# As in a rank: no terminal, no cache, no capturing.
OPTIONS = ("-s", "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler", "-c", "/dev/null")


class CaseTimer:
    def __init__(self) -> None:
        self.times: list[float] = []

    def pytest_runtest_logstart(self) -> None:
        self.times.append(time.perf_counter())

    def pytest_runtest_logfinish(self) -> None:
        self.times.append(time.perf_counter())


def main(folder: str) -> None:
    watch = CaseTimer()
    code = pytest.main([*OPTIONS, f"--rootdir={folder}", folder], plugins=[watch])
    if code:
        raise SystemExit(f"bench: pytest alone ended with {code}")
    cases = len(watch.times) // 2
    print(f"{1e3 * (watch.times[-1] - watch.times[0]) / cases:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
