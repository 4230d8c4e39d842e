"""A headless browser for tests of pages: Debian's Chromium, unpacked into the cache with what the machine lacks for it.

It uses only the unpacked fonts, so that a page is the same on every machine.
    python -m devcluster.programs.browser        unpack it, if there is none (100 MB of downloads, 300 MB on disk)
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine.settings import DevClusterError
from devcluster.programs import packages
from devcluster.programs.gobuild import Say

PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core", "fonts-inter")
PROGRAM = "usr/lib/chromium/chromium-headless-shell"
OTHERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>{folder}/usr/share/fonts</dir>
  <cachedir>{folder}/var/cache/fontconfig</cachedir>
  <alias binding="same"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
  <alias binding="same"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
  <alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias binding="same"><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    program: Path
    variables: Mapping[str, str]


def find() -> Browser | None:
    """Return the browser in the cache, else one of this machine."""
    place = packages.home(PACKAGES)
    if packages.is_complete(place):
        return _unpacked(place)
    found = next(filter(None, map(shutil.which, OTHERS)), None)
    return Browser(program=Path(found), variables={}) if found else None


def get(say: Say) -> Browser:
    """Return a browser; unpack one if there is none."""
    if found := find():
        return found
    return _unpacked(packages.unpacked(say, PACKAGES, needed_by="tests of pages"))


def _unpacked(place: Path) -> Browser:
    fonts = place / "fonts.conf"
    text = FONTS.format(folder=place)
    if not fonts.exists() or fonts.read_text() != text:
        fonts.write_text(text)
    libraries = [*_libraries(place), os.environ.get("LD_LIBRARY_PATH", "")]
    return Browser(
        program=place / PROGRAM,
        variables={"LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)), "FONTCONFIG_FILE": str(fonts)},
    )


def _libraries(place: Path) -> list[str]:
    """List folders with libraries, also those that only one package uses."""
    found = {file.parent for folder in ("usr/lib", "lib") for file in (place / folder).glob("*-linux-gnu*/**/lib*.so*")}
    return sorted(map(str, found))


def main() -> int:
    try:
        get(lambda text: print(text, flush=True))
    except DevClusterError as error:
        print(f"no browser: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
