"""How much memory a process may lock."""

import resource
from pathlib import Path

import pytest

from disttest_contract.results.preflight import UNLIMITED
from disttest_runner.linux import resource_limits

EVERYBODY = "         0          0 4294967295\n"
IPC_LOCK_ONLY, NONE, ALL_BUT_IPC_LOCK = "0000000000004000", "0000000000000000", "000001ffffffbfff"


@pytest.mark.parametrize(
    ("effective", "users", "is_unlimited"),
    [
        (IPC_LOCK_ONLY, EVERYBODY, True),
        (NONE, EVERYBODY, False),
        (ALL_BUT_IPC_LOCK, EVERYBODY, False),
        (IPC_LOCK_ONLY, "         0       1000          1\n", False),
    ],
    ids=["with the capability", "without any", "with all others", "in a user namespace"],
)
def test_the_capability_counts_as_no_limit(
    effective: str,
    users: str,
    is_unlimited: bool,  # noqa: FBT001  # a column of the table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65536, 65536))
    (tmp_path / "status").write_text(f"Name:\tpython\nCapPrm:\t{NONE}\nCapEff:\t{effective}\n")
    (tmp_path / "uid_map").write_text(users)
    assert resource_limits.memlock_bytes(tmp_path) == (UNLIMITED if is_unlimited else 65536)


def test_where_nothing_can_be_read_the_limit_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65536, 65536))
    assert resource_limits.memlock_bytes(tmp_path) == 65536
