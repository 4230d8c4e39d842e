"""The settings of a cluster, as its processes read them."""

import json
from pathlib import Path

import pytest

from devcluster.machine import settings
from devcluster.machine.settings import ClusterSettings, RealNodes

REAL = RealNodes(count=2, programs="/p", store="/s", registry="/r", cgroup="devcluster-x")


def test_settings_are_read_as_they_were_saved(tmp_path: Path) -> None:
    written = ClusterSettings(programs={"kubelet": ("/bin/k",)}, nodes=1, gpus=8, stubs=3, audit_policy="/a", real=REAL)
    written.save(tmp_path / "settings.json")
    assert settings.load(tmp_path / "settings.json") == written


@pytest.mark.parametrize("newer", ["stubs", "audit_policy", "real"])
def test_what_an_older_program_left_behind_can_still_be_read(tmp_path: Path, newer: str) -> None:
    file = tmp_path / "settings.json"
    ClusterSettings(programs={}, real=REAL).save(file)
    raw = json.loads(file.read_text())
    del raw[newer]
    file.write_text(json.dumps(raw))
    assert settings.load(file).nodes == 2
