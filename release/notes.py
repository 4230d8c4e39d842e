"""What CHANGELOG.md says of a version. Pure."""

import re

from release.errors import ReleaseError

UNRELEASED = "Unreleased"
HEADING = re.compile(r"(?m)^## (?P<name>\S+)(?: \((?P<date>\d{4}-\d\d-\d\d)\))?$")


def of(changelog: str, version: str) -> str:
    """Its chapter without the heading. A version that was released has a date."""
    headings = list(HEADING.finditer(changelog))
    for number, heading in enumerate(headings):
        if heading["name"] != version:
            continue
        if version != UNRELEASED and not heading["date"]:
            raise ReleaseError(f"CHANGELOG.md does not say when {version} is released: `## {version} (YYYY-MM-DD)`")
        end = headings[number + 1].start() if number + 1 < len(headings) else len(changelog)
        if text := changelog[heading.end() : end].strip():
            return text + "\n"
        raise ReleaseError(f"CHANGELOG.md says nothing under {version}")
    known = ", ".join(heading["name"] for heading in headings) or "nothing"
    raise ReleaseError(f"CHANGELOG.md has no chapter {version}, it has {known}: write `## {version} (YYYY-MM-DD)`")
