"""An ordinary account: its own home, Debian's default limits, a login shell and nothing of the tests' environment."""

import contextlib
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

OPEN_FILES = 1024  # Debian's soft limit
CACHES = ("uv", "disttest")  # below ~/.cache: what the machine has downloaded and built
COPY_SECONDS = 900
LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"  # Debian's, of /etc/profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """`name` is empty for the account that runs the tests, which gets another home only."""

    name: str
    home: Path

    def command(self, script: str) -> list[str]:
        """The words that run a script in a login shell of the account."""
        shell = ["bash", "--noprofile", "-c", f"ulimit -S -n {OPEN_FILES}\n{script}"]
        environ = [f"HOME={self.home}", f"PATH={LOGIN_PATH}", "LANG=C.UTF-8", "TERM=dumb"]
        become = ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--init-groups"] if self.name else []
        # a test that runs in the background ignores Ctrl-C, and so would all that it starts
        return [*become, "env", "-i", "--default-signal", *environ, *shell]

    def write(self, file: Path, text: str) -> None:
        """A file of the account."""
        self.run(f'cat > "{file}"', text)

    def make_folder(self, folder: Path) -> None:
        self.run(f'mkdir -p "{folder}"')

    def run(self, script: str, text: str = "") -> None:
        subprocess.run(self.command(script), input=text, text=True, check=True, timeout=60)

    def take(self, folder: Path) -> None:
        """Make it the owner of a folder and of all in it."""
        if self.name:
            subprocess.run(["chown", "-R", f"{self.name}:", str(folder)], check=True, timeout=COPY_SECONDS)

    def processes(self) -> list[str]:
        """Return the command lines of the account's processes that run; none for the account of the tests."""
        return [line for pid in self._pids() if (line := _command_line(pid))]

    def end_processes(self) -> None:
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _pids(self) -> Sequence[int]:
        if not self.name:
            return []
        user = pwd.getpwnam(self.name).pw_uid
        return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _owner(one) == user]


def _owner(process: Path) -> int:
    try:
        return process.stat().st_uid
    except FileNotFoundError:
        return -1


def _command_line(pid: int) -> str:
    """Empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def ordinary_account(folder: Path) -> Iterator[Account]:
    """A new account where we are root, removed at the end; else ours, with a home in `folder`."""
    if os.geteuid() != 0:
        yield _with_caches(Account(name="", home=folder))
        return
    name = f"disttest-{os.getpid()}"
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True, timeout=60)
    account = Account(name=name, home=Path(pwd.getpwnam(name).pw_dir))
    try:
        yield _with_caches(account)
    finally:
        account.end_processes()
        subprocess.run(["userdel", "--remove", name], check=True, capture_output=True, timeout=COPY_SECONDS)


def _with_caches(account: Account) -> Account:
    """Copied, since other accounts cannot read ours; without them everything is downloaded and built again."""
    source = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    own = account.home / ".cache"
    own.mkdir(exist_ok=True)
    for cache in CACHES:
        if (source / cache).is_dir():
            subprocess.run(
                ["cp", "-a", "--reflink=auto", str(source / cache), str(own)], check=True, timeout=COPY_SECONDS
            )
    account.take(own)
    return account
