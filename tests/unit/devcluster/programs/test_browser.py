"""Which browser pages are tested with: one in the cache, one of the machine, or none."""

from pathlib import Path

import pytest

from devcluster.machine.settings import DevClusterError
from devcluster.programs import browser, packages


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it would be unpacked, and a PATH without anything."""
    monkeypatch.setenv("DISTTEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own")
    return packages.home(browser.PACKAGES)


def unpack(place: Path) -> None:
    for folder in ("usr/lib/x86_64-linux-gnu/pulseaudio", "usr/lib/chromium"):
        (place / folder).mkdir(parents=True)
    (place / "usr/lib/x86_64-linux-gnu/liba.so.1").touch()
    (place / "usr/lib/x86_64-linux-gnu/pulseaudio/libb.so").touch()
    (place / packages.COMPLETE).touch()


def test_an_unpacked_browser_has_its_own_libraries_and_fonts(place: Path) -> None:
    unpack(place)
    found = browser.find()
    assert found is not None
    assert found.program == place / browser.PROGRAM
    libraries = place / "usr/lib/x86_64-linux-gnu"
    assert found.variables["LD_LIBRARY_PATH"] == f"{libraries}:{libraries}/pulseaudio:/own"
    assert f"<dir>{place}/usr/share/fonts</dir>" in Path(found.variables["FONTCONFIG_FILE"]).read_text()


def test_a_partly_unpacked_browser_is_not_used(place: Path) -> None:
    unpack(place)
    (place / packages.COMPLETE).unlink()
    assert browser.find() is None


def test_a_browser_on_path_is_used_as_it_is(place: Path, tmp_path: Path) -> None:
    own = tmp_path / "bin/chromium"
    own.parent.mkdir()
    own.touch(mode=0o755)
    assert browser.find() == browser.Browser(program=own, variables={})


def test_without_a_browser_and_apt_the_requirement_is_reported(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        DevClusterError, match="tests of pages need Debian or Ubuntu, for the packages chromium-headless-shell"
    ):
        browser.get(print)
    assert browser.main() == 1
    assert capsys.readouterr().err.startswith("no browser: tests of pages need Debian or Ubuntu")
