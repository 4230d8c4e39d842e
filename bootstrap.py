#!/usr/bin/env python3
"""Sets up what `make demo` and `make test` need: system packages, the virtual environment, the cluster's binary.

Runs on a bare Python 3.11, standard library only. What takes long is cached
outside of the clone, keyed by its inputs, so that a second clone is ready in seconds.

    bootstrap.py [venv | unit | monitoring | all]
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
INSTALLER = ROOT / "installer.txt"  # uv with its hashes, used where none is installed
HEARTBEAT_SECONDS = 10

# program -> Debian package that brings it
PROGRAMS = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "openssl": "openssl",
    "git": "git",
}


class SetupError(Exception):
    """What is missing and what to do about it, on one line."""


def cache() -> Path:
    """Where built things live: DISTTEST_CACHE, else the user's cache directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("DISTTEST_CACHE") or base / "disttest")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def run(what: str, *command: str | Path, **environment: str) -> None:
    """Run a quiet command with a sign of life every few seconds; its output is shown if it fails."""
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            say(f"{what} … {time.monotonic() - started:.0f} s")

    say(what)
    threading.Thread(target=beat, daemon=True).start()
    with tempfile.TemporaryFile() as output:
        try:
            code = subprocess.run(
                [str(part) for part in command],
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
                check=False,
            ).returncode
        finally:
            done.set()
        if code:
            output.seek(0)
            sys.stderr.write(output.read().decode(errors="replace")[-4000:])
            raise SetupError(f"{what}: `{' '.join(map(str, command))}` ended with exit code {code}, see above")


def system_packages() -> None:
    """Install what is missing where we are root on Debian or Ubuntu; elsewhere name it."""
    missing = {
        program: package for program, package in PROGRAMS.items() if not shutil.which(program, path=search_path())
    }
    if not missing:
        return
    packages = sorted(set(missing.values()))
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise SetupError(
            f"missing: {', '.join(sorted(missing))}. Ask an administrator for the packages {' '.join(packages)}"
        )
    run("package lists", "apt-get", "update", "-q")
    install = ["apt-get", "install", "-qy", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold"]
    run(f"system packages: {' '.join(packages)}", *install, *packages, DEBIAN_FRONTEND="noninteractive")


def prometheus() -> None:
    """For tests: rules are tested by promtool."""
    service("prometheus", "prometheus", without="the tests that let one scrape will skip, those of the rules fail")


def alertmanager() -> None:
    """For the demo of monitoring."""
    program = "prometheus-alertmanager"
    service(program, program, without="`make demo-monitoring` cannot be run")


def service(package: str, program: str, *, without: str) -> None:
    """Unpack a Debian package into the cache: installed it would start a service."""
    home = cache() / package
    if (home / "usr/bin" / program).exists() or shutil.which(program):
        return
    if not shutil.which("apt-get"):
        say(f"no {program} on PATH: {without}")
        return
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as directory:
        try:
            if os.geteuid() == 0:
                run("package lists", "apt-get", "update", "-q")
            run(f"downloading {package}", "sh", "-c", 'cd "$1" && apt-get download -q "$2"', "sh", directory, package)
            run(f"unpacking {package}", "dpkg", "-x", *Path(directory).glob("*.deb"), f"{directory}/unpacked")
            Path(directory, "unpacked").rename(home)
        except (SetupError, OSError) as error:
            say(f"no {program} ({error}): {without}")


def search_path() -> str:
    """PATH of an ordinary user often lacks the administrator's programs."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"])


def uv() -> Path:
    """The installer: the one on PATH, else one of our own in the cache."""
    if found := shutil.which("uv"):
        return Path(found)
    home = cache() / INSTALLER.read_text().split()[0].replace("==", "-")
    program = home / "bin" / "uv"
    if not program.exists():
        run(
            "a place for uv (needs Python's venv module: package python3-venv)",
            sys.executable,
            "-m",
            "venv",
            "--clear",
            home,
        )
        pip = (home / "bin" / "python", "-m", "pip", "install", "-q", "--require-hashes")
        run("installing uv", *pip, "-r", INSTALLER)
    return program


def virtual_environment() -> None:
    """Make .venv what constraints.txt says, unless it is."""
    digest = hashlib.sha256(sys.version.encode())
    for file in (CONSTRAINTS, ROOT / "pyproject.toml"):
        digest.update(file.read_bytes())
    stamp, wanted = VENV / "disttest-inputs", digest.hexdigest() + f" {ROOT}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    installer = uv()
    python = VENV / "bin" / "python"
    if not python.exists():
        run("creating .venv", installer, "venv", "-q", "--clear", "--python", sys.executable, VENV)
    run(
        "installing pinned packages into .venv (torch is 4.7 GB: minutes the first time, seconds from the cache)",
        installer, "pip", "sync", "-q", "--python", python, "--require-hashes", CONSTRAINTS,
    )  # fmt: skip
    run(
        "installing disttest into .venv",
        installer, "pip", "install", "-q", "--python", python, "--no-deps", "--no-build-isolation", "-e", ROOT,
    )  # fmt: skip
    stamp.write_text(wanted)


def cluster_binary() -> None:
    """Build, or find in the cache, the binary of the development cluster."""
    command = [str(VENV / "bin" / "python"), "-m", "devcluster", "build"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SetupError("the development cluster's binary could not be built, see above")


def browser() -> None:
    """For tests of the HTML report: one on PATH, else Debian's in the cache."""
    if subprocess.run([VENV / "bin" / "python", "-m", "devcluster.browser"], cwd=ROOT, check=False).returncode:
        say("no headless browser, see above: the tests that open the HTML report will skip")


def main() -> int:
    """Do what is asked; exit code 2 and one line if it cannot be done."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    steps = {
        "venv": (virtual_environment,),
        "unit": (virtual_environment, prometheus),
        "monitoring": (prometheus, alertmanager),
        "all": (system_packages, virtual_environment, prometheus, browser, cluster_binary),
    }
    try:
        for step in steps[wanted]:
            step()
    except KeyError:
        print(f"setup: unknown step {wanted!r}; known: {', '.join(steps)}", file=sys.stderr)
        return 2
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("setup: interrupted; run it again, what was done is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  # whoever runs this file may have any Python
        sys.exit("setup: Python 3.11 or newer is needed; try `make PYTHON=python3.11 ...`")
    sys.exit(main())
