"""python -m tools.docs [--check]"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tools.docs import api, command_line, field_rules, licences, permissions
from tools.release import installed

ROOT = Path(__file__).parents[2]
DEFINITIONS = ("disttests.yaml", "disttestseries.yaml")


def _definitions() -> list[dict[str, Any]]:
    return [yaml.safe_load((ROOT / "manifests/crd" / name).read_text()) for name in DEFINITIONS]


def schemas() -> list[dict[str, Any]]:
    """The schemas of the custom resources."""
    return [one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for one in _definitions()]


def _api() -> str:
    return api.page(_definitions())


def _field_rules() -> str:
    return field_rules.module(_definitions()[0], ROOT)


def roles() -> list[dict[str, Any]]:
    """All roles: of the operator, nightly pods, scrapers, users."""
    files = [*sorted((ROOT / "manifests/rbac").rglob("*.yaml")), ROOT / "manifests/nightly/rbac.yaml"]
    found = [entry for file in files for entry in yaml.safe_load_all(file.read_text())]
    return [entry for entry in found if entry["kind"] in permissions.KINDS]


def _security() -> str:
    return permissions.page((ROOT / SECURITY).read_text(), roles())


def _licences() -> str:
    return licences.page(installed.record())


SECURITY = "docs/security.md"
PAGES: dict[str, Callable[[], str]] = {
    "docs/api.md": _api,
    "docs/cli.md": command_line.page,
    "docs/licences.md": _licences,
    SECURITY: _security,
    "operator/disttest_operator/core/api/spec_schema.py": _field_rules,
}


def main() -> int:
    if "--check" not in sys.argv[1:] and installed.renew():
        print(f"wrote {installed.RECORD.relative_to(ROOT)}")
    if lacking := installed.lacking(installed.pinned(), installed.record()):
        print(
            f"{installed.RECORD.name} does not know {', '.join(lacking)}: run `python -m tools.docs`", file=sys.stderr
        )
        return 1
    try:
        stale = [name for name, page in PAGES.items() if not _is(name, page())]
    except permissions.RightsError as error:
        print(error, file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"{name} is not what the code says: run `python -m tools.docs`", file=sys.stderr)
        print(f"{len(PAGES)} pages are made from the code" if not stale else "documents are stale")
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(PAGES[name]())
        print(f"wrote {name}")
    return 0


def _is(name: str, text: str) -> bool:
    file = ROOT / name
    return file.exists() and file.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
