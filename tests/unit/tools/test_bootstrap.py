import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.paths import ROOT
from tools import bootstrap as setup


def bootstrap(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.bootstrap", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=patience.stretched(60),
        check=False,
    )


def test_an_unknown_step_is_one_line_and_exit_code_2() -> None:
    done = bootstrap("nonsense")
    assert done.returncode == 2
    assert done.stderr == "setup: unknown step 'nonsense'; known: venv, demo, unit, monitoring, all\n"


def test_a_set_up_environment_is_left_alone() -> None:
    done = bootstrap("venv")
    if "installing" in done.stdout:
        pytest.fail("the environment that runs this test was set up by other means than tools.bootstrap")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_constraints_name_no_host() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "--index" not in text


BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
MIRROR = "https://mirror.example.com/simple"
PIP_LISTED = f"""\
:env:.cert='/of/the/variable.pem'
global.cert='/of/the/file.pem'
global.index-url='https://unused.example.com/simple'
global.trusted-host='\\none.example.com\\ntwo.example.com'
install.index-url='{MIRROR}'
"""


@pytest.fixture
def not_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "ENDING", threading.Event())


def test_steps_run_at_the_same_time_and_each_line_has_the_name_of_its_step(
    not_ending: None, capsys: pytest.CaptureFixture[str]
) -> None:
    both = threading.Barrier(2, timeout=30)

    def step(text: str) -> None:
        setup.say(f"{text} begins")
        both.wait()  # one after the other they would time out
        setup.run(text, "true")

    setup.side_by_side(packages=lambda: step("torch"), Kubernetes=lambda: step("etcd"))
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "setup: Kubernetes: etcd",
        "setup: Kubernetes: etcd begins",
        "setup: packages: torch",
        "setup: packages: torch begins",
    ]


def test_the_first_step_that_fails_ends_the_others_and_is_the_one_that_is_named(
    not_ending: None, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)

    def fail() -> None:
        started.read_bytes()  # blocks until the other has opened it
        raise setup.SetupError("no network")

    def last() -> None:
        setup.run("a long step", "sh", "-c", f": > {started}; exec sleep 300")

    before = time.monotonic()
    with pytest.raises(setup.SetupError, match="no network"):
        setup.side_by_side(packages=fail, Kubernetes=last)
    assert time.monotonic() - before < 60


def test_the_options_of_pip_are_read_as_pip_ranks_them() -> None:
    assert setup.pip_options(PIP_LISTED) == {
        "cert": "/of/the/variable.pem",
        "index-url": MIRROR,
        "trusted-host": "\none.example.com\ntwo.example.com",
    }


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        ({}, {}, {"SSL_CERT_FILE": BUNDLE}),
        ({"SSL_CERT_FILE": "/mine"}, {"cert": "/of/pip"}, {}),
        ({"UV_SYSTEM_CERTS": "1"}, {}, {}),
        ({}, {"cert": "/of/pip"}, {"SSL_CERT_FILE": "/of/pip"}),
        ({"SSL_CERT_DIR": "/mine"}, {"index-url": MIRROR}, {"UV_DEFAULT_INDEX": MIRROR}),
        ({"SSL_CERT_DIR": "/mine", "UV_INDEX_URL": "https://x"}, {"index-url": MIRROR}, {}),
        ({"SSL_CERT_DIR": "/mine", "HTTPS_PROXY": "http://x"}, {"proxy": "http://y"}, {}),
        ({"SSL_CERT_DIR": "/mine"}, {"trusted-host": "\na\nb"}, {"UV_INSECURE_HOST": "a b"}),
        ({"SSL_CERT_DIR": "/mine"}, {"timeout": "180"}, {}),
    ],
    ids=str,
)
def test_uv_gets_settings_that_it_does_not_read_and_variables_of_the_user_win(
    environment: dict[str, str], options: dict[str, str], expected: dict[str, str]
) -> None:
    assert setup.uv_settings(environment, options, BUNDLE) == expected


def test_without_a_bundle_of_the_system_uv_keeps_its_own_certificates() -> None:
    assert setup.uv_settings({}, {}, "") == {}


def test_uv_runs_with_the_certificates_of_the_system_and_the_index_of_pip(
    not_ending: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake uv records its variables."""
    uv, pip = tmp_path / "bin" / "uv", tmp_path / "pip.conf"
    uv.parent.mkdir()
    uv.write_text(f"#!/bin/sh\nmkdir -p {tmp_path}/venv\nenv >> {tmp_path}/$2\n")
    uv.chmod(0o755)
    pip.write_text(f"[global]\nindex-url = {MIRROR}\ncert = {tmp_path}/bundle\n")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(pip))
    monkeypatch.setenv("PATH", f"{uv.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(setup, "VENV", tmp_path / "venv")
    setup.uv_environment.cache_clear()
    setup.virtual_environment()
    setup.uv_environment.cache_clear()
    for command in ("sync", "install"):
        variables = (tmp_path / command).read_text().splitlines()
        assert f"UV_DEFAULT_INDEX={MIRROR}" in variables
        assert f"SSL_CERT_FILE={tmp_path}/bundle" in variables


def test_byte_code_is_compiled_once_although_the_shell_disables_it(
    not_ending: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake Python records its variable."""
    python, calls = tmp_path / "bin" / "python", tmp_path / "calls"
    cached = tmp_path / "lib" / "python3.11" / "site-packages" / "torch" / "__pycache__"
    for folder in (python.parent, cached):
        folder.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\necho "$PYTHONDONTWRITEBYTECODE|" >> {calls}\ntouch {cached}/__init__.cpython-311.pyc\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(setup, "VENV", tmp_path)
    for _ in range(2):
        setup.byte_code()
    assert calls.read_text() == "|\n"


def test_an_error_within_a_step_is_not_reported_as_an_unknown_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise KeyError("HOME")

    monkeypatch.setattr(setup, "virtual_environment", broken)
    monkeypatch.setattr(sys, "argv", ["bootstrap", "venv"])
    with pytest.raises(KeyError):
        setup.main()
    assert "unknown step" not in capsys.readouterr().err
