"""Where Inductor's cache of a local run lies, and how large it may become."""

from pathlib import Path

from disttest_cli.local import agents


def fill(cache: str, size_bytes: int) -> Path:
    entry = Path(cache, "ab", "kernel.so")
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"x" * size_bytes)
    return entry


def test_the_users_own_folder_is_used_as_it_is(tmp_path: Path) -> None:
    with agents.inductor_folder({agents.VARIABLE: "/its/own", "HOME": str(tmp_path)}, tmp_path) as cache:
        assert cache == "/its/own"
    assert list(tmp_path.iterdir()) == []


def test_otherwise_it_is_below_the_users_cache_and_outlives_the_run(tmp_path: Path) -> None:
    home, xdg, run = tmp_path / "home", tmp_path / "xdg", tmp_path / "run"
    with agents.inductor_folder({"HOME": str(home), "XDG_CACHE_HOME": str(xdg)}, run) as cache:
        entry = fill(cache, 1)
    assert entry.is_relative_to(xdg / "disttest")
    with agents.inductor_folder({"HOME": str(home), "XDG_CACHE_HOME": "relative"}, run) as cache:
        assert Path(cache).is_relative_to(home / ".cache" / "disttest")
    with agents.inductor_folder({"HOME": str(home), "XDG_CACHE_HOME": str(xdg)}, run):
        assert entry.exists()
    assert not run.exists()


def test_without_a_home_that_can_be_written_it_ends_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder can be made below this")
    for environ in ({}, {"HOME": ""}, {"HOME": str(tmp_path / "file")}):
        with agents.inductor_folder(environ, tmp_path / "run") as cache:
            assert Path(cache).is_relative_to(tmp_path / "run"), environ


def test_beyond_its_limit_it_is_emptied_before_the_next_run(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    with agents.inductor_folder(environ, tmp_path / "run") as cache:
        entry = fill(cache, 101)
    with agents.inductor_folder(environ, tmp_path / "run", limit_bytes=101):
        assert entry.exists()
    with agents.inductor_folder(environ, tmp_path / "run", limit_bytes=100) as cache:
        assert list(Path(cache).iterdir()) == []


def test_it_is_not_emptied_while_another_run_uses_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    with agents.inductor_folder(environ, tmp_path / "run") as cache:
        entry = fill(cache, 101)
        with agents.inductor_folder(environ, tmp_path / "run", limit_bytes=100):
            assert entry.exists()
