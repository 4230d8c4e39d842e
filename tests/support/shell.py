"""The command line as a user with a kubeconfig starts it."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from disttest_cli.main import main

SECONDS = 60
PLUGINS = Path(sys.executable).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCommand:
    code: int
    out: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A user with a kubeconfig, in a namespace."""

    kubeconfig: Path
    namespace: str
    directory: Path

    def __call__(self, *words: str) -> EndedCommand:
        """In this process: most of a command's second is the import of the Kubernetes client."""
        raw, error = io.BytesIO(), io.StringIO()
        out = io.TextIOWrapper(raw, "utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = main([*words, "--kubeconfig", str(self.kubeconfig)])
            out.flush()
        return EndedCommand(code=code, out=raw.getvalue().decode(), error=error.getvalue())

    def start(self, *words: str, program: tuple[str, ...] = ("disttest",), stdin: str = "") -> EndedCommand:
        """As a separate program."""
        done = subprocess.run(
            [*program, *words],
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            cwd=self.directory,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return EndedCommand(code=done.returncode, out=done.stdout, error=done.stderr)

    @property
    def environ(self) -> Mapping[str, str]:
        path = f"{PLUGINS}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig)}

    def lines(self, *words: str) -> list[str]:
        """Of a command that must succeed."""
        ended = self(*words, "-n", self.namespace)
        assert ended.code == 0, ended
        return ended.out.splitlines()
