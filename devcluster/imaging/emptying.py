"""Directories that hold nothing but what one build needed."""

import shutil
from pathlib import Path


def empty(folder: Path) -> None:
    """Nothing is mounted below it: mounts are in namespaces that have ended."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
