"""python -m tools.wording [PATH ...]: check words with Vale and spelling with codespell, in docs, manifests and code.

Without PATH, all files are checked. The rules are in vale/styles.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from devcluster.machine import cache
from devcluster.machine.settings import DevClusterError
from devcluster.programs import gobuild

ROOT = Path(__file__).resolve().parents[1]
VALE = gobuild.GoProgram(
    title="Vale",
    source=ROOT / "tools/vale",
    inputs=("go.mod", "go.sum"),
    linker="-s -w",
    package="github.com/errata-ai/vale/v3/cmd/vale",
    home=cache.root() / "vale",
    name="vale",
    minutes=2,
    otherwise="install Vale 3 from https://vale.sh",
    c_compiler=True,
)
TYPES = (".html", ".md", ".py", ".toml", ".yaml")
KEEP = "plain: ok"  # in a line that must keep a phrase, such as a quotation


def find_vale() -> Path | None:
    """Return Vale from PATH or the cache; None if it must be built first."""
    found = shutil.which("vale")
    return Path(found) if found else gobuild.cached(VALE)


def files(*paths: str) -> list[str]:
    """List files of the repository, including new ones that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if name.endswith(TYPES) and (ROOT / name).is_file()]


def words(names: Sequence[str]) -> Iterator[str]:
    """Yield file:line: word → replacement for every phrase of the rules."""
    command = [
        str(find_vale() or gobuild.build(VALE, print)),
        "--config",
        str(ROOT / ".vale.ini"),
        "--no-exit",
        "--output=JSON",
        *names,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DevClusterError(f"Vale failed: {(done.stderr or done.stdout).strip()}")
    for name, hits in sorted(json.loads(done.stdout).items()):
        lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
        yield from (f"{name}:{hit['Line']}: {hit['Message']}" for hit in hits if KEEP not in lines[hit["Line"] - 1])


def typos(names: Sequence[str]) -> Iterator[str]:
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(ROOT / "pyproject.toml"), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.stderr:
        raise DevClusterError(f"codespell failed: {done.stderr.strip()}")
    yield from (line.replace("==>", "→") for line in done.stdout.splitlines())


def main(arguments: Sequence[str]) -> int:
    """Print what was found; exit code 1 if there is anything, 2 if a linter is missing."""
    names = [*arguments] or files()
    try:
        found = [*words(names), *typos(names)]
    except DevClusterError as error:
        print(f"words are not checked: {error}", file=sys.stderr)
        return 2
    for line in found:
        print(line)
    if found:
        print(f"{len(found)} words to replace. A line that must keep its words ends in the comment `{KEEP}`.")
        return 1
    print(f"words and spelling of {len(names)} files are correct")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
