"""Write all generated files: `python -m monitoring [DIRECTORY]`, manifests/monitoring unless told otherwise."""

import sys
from collections.abc import Callable
from pathlib import Path

from monitoring import rules, scraping

# Each writes its files below the directory and says which.
WRITERS: tuple[Callable[[Path], list[Path]], ...] = (rules.write, scraping.write)
MANIFESTS = Path(__file__).resolve().parent.parent / "manifests" / "monitoring"


def write_all(directory: Path) -> list[Path]:
    return [path for write in WRITERS for path in write(directory)]


if __name__ == "__main__":
    for path in write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else MANIFESTS):
        print(path)
