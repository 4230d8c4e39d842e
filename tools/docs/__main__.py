"""python -m tools.docs [--check]"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tools.docs import PageError, api, command_line, field_rules, licences, permissions, vocabulary
from tools.release import installed

ROOT = Path(__file__).parents[2]
DEFINITIONS = ("disttests.yaml", "disttestseries.yaml")


def _definitions() -> list[dict[str, Any]]:
    return [yaml.safe_load((ROOT / "manifests/crd" / name).read_text()) for name in DEFINITIONS]


def schemas() -> list[dict[str, Any]]:
    """The schemas of the custom resources."""
    return [one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for one in _definitions()]


def roles() -> list[dict[str, Any]]:
    """All roles: of the operator, nightly pods, scrapers, users."""
    files = [*sorted((ROOT / "manifests/rbac").rglob("*.yaml")), ROOT / "manifests/nightly/rbac.yaml"]
    found = [entry for file in files for entry in yaml.safe_load_all(file.read_text())]
    return [entry for entry in found if entry["kind"] in permissions.KINDS]


METRICS, SECURITY = "docs/reference/metrics.md", "docs/operating/security.md"
PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/api.md": lambda: api.page(_definitions()),
    "docs/reference/cli.md": command_line.page,
    METRICS: lambda: vocabulary.metrics_page((ROOT / METRICS).read_text()),
    "docs/reference/vocabulary.md": vocabulary.page,
    "docs/development/licences.md": lambda: licences.page(installed.record()),
    SECURITY: lambda: permissions.page((ROOT / SECURITY).read_text(), roles()),
    "operator/disttest_operator/core/api/spec_schema.py": lambda: field_rules.module(_definitions()[0], ROOT),
}


def main() -> int:
    if "--check" not in sys.argv[1:] and installed.renew():
        print(f"wrote {installed.RECORD.relative_to(ROOT)}")
    if lacking := installed.lacking(installed.pinned(), installed.record()):
        print(f"{installed.RECORD.name} lacks {', '.join(lacking)}: run `python -m tools.docs`", file=sys.stderr)
        return 1
    try:
        stale = [name for name, page in PAGES.items() if not _is_current(name, page)]
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"{name} does not match the code: run `python -m tools.docs`", file=sys.stderr)
        print(f"{len(PAGES)} generated pages match the code" if not stale else "generated pages are out of date")
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(PAGES[name]())
        print(f"wrote {name}")
    return 0


def _is_current(name: str, page: Callable[[], str]) -> bool:
    file = ROOT / name
    try:
        return page() == (file.read_text() if file.exists() else "")
    except PageError as error:
        raise PageError(f"{name}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
