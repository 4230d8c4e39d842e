"""Set up what `make demo` and `make test` need: system packages, the virtual environment, the cluster's binary.

Runs on a bare Python 3.11. Slow results are cached outside of the clone, keyed by their inputs, so that a second clone
is ready in seconds.

    python3 -m tools.bootstrap [venv | demo | unit | monitoring | all]
"""

import ast
import contextvars
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from devcluster.machine import cache, processes
from devcluster.programs import gobuild

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
INSTALLER = ROOT / "installer.txt"  # uv with its hashes, used where none is installed
HEARTBEAT_SECONDS = 10
# Imports of the demo's pods.
IMPORTS = """
import importlib, disttest_operator.main
from disttest_runner.cases.preload import ALWAYS, OF_SUITE
for name in (*ALWAYS, *OF_SUITE["fully-shard-autograd"], *OF_SUITE["pipeline-schedules"]):
    importlib.import_module(name)
"""
PINNED_GB = 5.35  # what uv writes for constraints.txt into an empty cache
# The system's certificates on Debian, Fedora, SUSE and Alpine.
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# pip's option -> the variable that uv reads, and others with which the user has decided already
UV_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE"),
    "cert": ("SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS"),
    "proxy": ("ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"),
    "trusted-host": ("UV_INSECURE_HOST",),
}
PIP_SECTIONS = ("global", "install", ":env:")  # the later wins
PIP_SECONDS = 30

PROGRAMS = {**processes.DEBIAN_PACKAGES, "git": "git"}


class SetupError(Exception):
    """What is missing and what to do about it, in one line."""


# The name of a step that runs next to others.
LABEL: contextvars.ContextVar[str] = contextvars.ContextVar("LABEL", default="")
RUNNING: set[subprocess.Popen[bytes]] = set()
ENDING = threading.Event()


def say(text: str) -> None:
    print(f"setup: {LABEL.get()}{text}", flush=True)


def start(
    command: Sequence[str | Path], environment: Mapping[str, str], *, stdout: int, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    if ENDING.is_set():
        raise SetupError("another step has failed")
    process = subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}, stdout=stdout, stderr=stderr
    )
    RUNNING.add(process)
    if ENDING.is_set():  # since the check above: then end_processes() may have missed it
        process.send_signal(signal.SIGTERM)
    return process


def side_by_side(**steps: Callable[[], None]) -> None:
    """Run steps at the same time, each line with the step's name; the first failure ends the others."""

    def labelled(name: str, step: Callable[[], None]) -> None:
        LABEL.set(f"{name}: ")
        step()

    with ThreadPoolExecutor(len(steps)) as pool:
        futures = [pool.submit(labelled, name, step) for name, step in steps.items()]
        try:
            done, others = wait(futures, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            end_processes()
            raise
        if others:
            end_processes()
    for future in done:
        future.result()


def end_processes() -> None:
    ENDING.set()
    for process in tuple(RUNNING):
        process.send_signal(signal.SIGTERM)


def run(
    what: str,
    *command: str | Path,
    progress: Callable[[int, float], str] = lambda _pid, seconds: f"{seconds:.0f} s",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a quiet command with its progress every few seconds; its output is shown if it fails."""
    say(what)
    with tempfile.TemporaryFile() as output:
        process = start(command, environment or {}, stdout=output.fileno(), stderr=output.fileno())
        started = time.monotonic()
        try:
            while True:
                try:
                    code = process.wait(HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{what.partition(' (')[0]} … {progress(process.pid, time.monotonic() - started)}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            RUNNING.discard(process)
        if code and not ENDING.is_set():
            output.seek(0)
            sys.stderr.write(output.read().decode(errors="replace")[-4000:])
        if code:
            raise SetupError(f"{what}: `{' '.join(map(str, command))}` ended with exit code {code}, see above")


def system_packages() -> None:
    """Install missing packages as root on Debian or Ubuntu; elsewhere raise a SetupError that names them."""
    missing = {
        program: package
        for program, package in PROGRAMS.items()
        if not shutil.which(program, path=processes.search_path())
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
    run(
        f"system packages: {' '.join(packages)}", *install, *packages, environment={"DEBIAN_FRONTEND": "noninteractive"}
    )


def prometheus() -> None:
    """Provide promtool and Prometheus for tests."""
    service("prometheus", "prometheus", without="the tests that let one scrape will skip, those of the rules fail")


def alertmanager() -> None:
    """Provide Alertmanager for the demo of monitoring."""
    program = "prometheus-alertmanager"
    service(program, program, without="`make demo-monitoring` cannot be run")


def service(package: str, program: str, *, without: str) -> None:
    """Unpack a Debian package into the cache, because its installation would start a service."""
    home = cache.root() / package
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


def uv() -> Path:
    """The installer: uv on PATH, otherwise one in the cache."""
    if found := shutil.which("uv"):
        return Path(found)
    home = cache.root() / INSTALLER.read_text().split()[0].replace("==", "-")
    program = home / "bin" / "uv"
    if not program.exists():
        venv = (sys.executable, "-m", "venv", "--clear", home)
        run("a place for uv (needs Python's venv module: package python3-venv)", *venv)
        pip = (home / "bin" / "python", "-m", "pip", "install", "-q", "--require-hashes")
        run("installing uv", *pip, "-r", INSTALLER)
    return program


def pip_options(listed: str) -> dict[str, str]:
    """The options that `pip config list` prints, as lines of section.option='value'."""
    found = re.findall(r"^(\S+?)\.([\w-]+)=('.*'|\".*\")$", listed, re.MULTILINE)
    rows = [(section, option, str(ast.literal_eval(value))) for section, option, value in found]
    known = [row for row in rows if row[0] in PIP_SECTIONS]
    return {option: value for _, option, value in sorted(known, key=lambda row: PIP_SECTIONS.index(row[0]))}


def uv_settings(environment: Mapping[str, str], options: Mapping[str, str], bundle: str) -> dict[str, str]:
    """Settings that uv does not read: those of pip, and the system's certificates.

    uv has its own root certificates: behind a proxy that inspects TLS pip and curl work, and uv does not.
    """
    wanted = {"cert": bundle, **options}
    return {
        names[0]: " ".join(wanted[option].split())
        for option, names in UV_VARIABLES.items()
        if wanted.get(option) and not any(environment.get(name) for name in names)
    }


@functools.cache
def uv_environment() -> dict[str, str]:
    """Settings of pip for uv; the index is left to the user's uv.toml if there is one."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
        options = pip_options(asked.stdout)
    except subprocess.TimeoutExpired:
        options = {}
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if any(file.exists() for file in (base / "uv" / "uv.toml", Path("/etc/uv/uv.toml"))):
        options.pop("index-url", None)
    return uv_settings(os.environ, options, next(filter(os.path.exists, BUNDLES), ""))


def virtual_environment() -> None:
    """Install the pins of constraints.txt into .venv, unless its stamp shows that they are there."""
    digest = hashlib.sha256(sys.version.encode())
    for file in (CONSTRAINTS, ROOT / "pyproject.toml"):
        digest.update(file.read_bytes())
    stamp, wanted = VENV / "disttest-inputs", digest.hexdigest() + f" {ROOT}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    installer, settings = uv(), uv_environment()
    python = VENV / "bin" / "python"
    if not python.exists():
        run("creating .venv", installer, "venv", "-q", "--clear", "--python", sys.executable, VENV)
    run(
        "installing pinned packages into .venv (torch is 4.7 GB: minutes the first time, seconds from the cache)",
        installer, "pip", "sync", "-q", "--python", python, "--require-hashes", CONSTRAINTS,
        progress=unpacked, environment=settings,
    )  # fmt: skip
    run(
        "installing disttest into .venv",
        installer, "pip", "install", "-q", "--python", python, "--no-deps", "--no-build-isolation", "-e", ROOT,
        environment=settings,
    )  # fmt: skip
    stamp.write_text(wanted)


def unpacked(pid: int, seconds: float) -> str:
    """The progress of uv by the bytes it has written; packages in its cache are not written again."""
    try:
        counters = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    except OSError:
        return f"{seconds:.0f} s"
    written = int(counters.get("wchar", 0)) / 1e9
    left = gobuild.time_left(written, PINNED_GB, seconds)
    return f"{seconds:.0f} s, {written:.1f} of at most {PINNED_GB:.1f} GB{left}"


def byte_code() -> None:
    """Compile what pods import: they see .venv read-only and would each compile torch's sources again."""
    if not any(VENV.glob("lib/python3*/site-packages/torch/__pycache__/__init__.*.pyc")):
        command = (VENV / "bin" / "python", "-c", IMPORTS)
        with tempfile.TemporaryDirectory(prefix="disttest-") as folder:  # Inductor makes a folder when it is imported
            own = {"PYTHONDONTWRITEBYTECODE": "", "TMPDIR": folder}
            run("compiling torch to byte code", *command, environment=own)


def cluster_binary(*options: str) -> None:
    """Build the programs of the development cluster, or find them in the cache; needs no package of .venv."""
    process = start((sys.executable, "-m", "devcluster", "build", *options), {}, stdout=subprocess.PIPE)
    try:
        with process:
            for line in process.stdout or ():
                say(line.decode(errors="replace").rstrip())
    finally:
        RUNNING.discard(process)
    if process.returncode:
        raise SetupError("the development cluster's binary could not be built, see above")


def needed_by_demo() -> None:
    """Set up for the demo: torch's download waits for the network, Kubernetes' build for the processor."""

    def packages() -> None:
        virtual_environment()
        byte_code()

    side_by_side(packages=packages, Kubernetes=lambda: cluster_binary("--unless-on-path"))


def needed_by_tests() -> None:
    side_by_side(packages=virtual_environment, Kubernetes=cluster_binary)


def browser() -> None:
    """Provide a browser for tests of the HTML report: one on PATH, otherwise Debian's in the cache."""
    if subprocess.run([VENV / "bin" / "python", "-m", "devcluster.programs.browser"], cwd=ROOT, check=False).returncode:
        say("no headless browser, see above: the tests that open the HTML report will skip")


def main() -> int:
    """Run the steps of the argument; exit code 2 and one line if one fails."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    steps = {
        "venv": (virtual_environment,),
        "demo": (system_packages, needed_by_demo),
        "unit": (virtual_environment, prometheus),
        "monitoring": (prometheus, alertmanager),
        "all": (system_packages, needed_by_tests, prometheus, browser),
    }
    if wanted not in steps:
        print(f"setup: unknown step {wanted!r}; known: {', '.join(steps)}", file=sys.stderr)
        return 2
    try:
        for step in steps[wanted]:
            step()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("setup: interrupted; run it again, what was done is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  # this file may be run by any Python
        sys.exit("setup: Python 3.11 or newer is needed; try `make PYTHON=python3.11 ...`")
    sys.exit(main())
