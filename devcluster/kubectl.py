"""kubectl for one cluster, as its administrator: what tests and benchmarks share."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

KUBECTL_SECONDS = 120
DURATION = "--duration=24h"  # of tokens


class KubectlError(Exception):
    """The message is what kubectl wrote to its standard error."""


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity
class Kubectl:
    kubeconfig: Path  # of the administrator, for programs on the host
    directory: Path  # for files that belong to this cluster, such as other kubeconfigs
    program: tuple[str, ...]

    @staticmethod
    def timeout(seconds: float) -> float:
        """Seconds to use as a timeout: tests extend them on a busy machine."""
        return seconds

    def command(self, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
        # The default is in the home directory, where the files of each cluster would stay.
        cache = f"--cache-dir={self.directory / 'kubectl-cache'}"
        return [*self.program, f"--kubeconfig={kubeconfig or self.kubeconfig}", cache, *arguments]

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002 - as subprocess.run calls it
        """Return standard output; without `check`, standard output and error of a failure too."""
        done = subprocess.run(
            self.command(*arguments),
            input=input,
            text=True,
            capture_output=True,
            timeout=self.timeout(KUBECTL_SECONDS),
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        if check:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig with a token of this ServiceAccount, for a program on the host that needs its rights."""
        token = self.kubectl("create", "token", service_account, "--namespace", namespace, DURATION).strip()
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        config["users"][0]["user"] = {"token": token}
        config["contexts"][0]["context"]["namespace"] = namespace
        file = self.directory / f"{namespace}.{service_account}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(config))
        return file
