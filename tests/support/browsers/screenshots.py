"""Pictures of the HTML report for docs/images, of a made-up night: no number in them was measured.

python -m tests.support.browsers.screenshots
"""

import io
import sys
from collections.abc import Mapping
from typing import Literal

from PIL import Image
from playwright.sync_api import Page

from disttest_cli.formats.html import render
from tests.support.browsers.browser import started
from tests.support.paths import ROOT
from tests.support.reports.reports import a_subject

FOLDER = ROOT / "docs/images"
WIDTH = 1200
Scheme = Literal["light", "dark"]
# name -> colours of the page, what is at its top (empty: the beginning), height
PICTURES: Mapping[str, tuple[Scheme, str, int]] = {
    "report-light": ("light", "", 1000),
    "report-dark": ("dark", "", 1000),
    "report-failure": ("light", "#case-1", 900),
    "report-ranks": ("dark", "#ranks", 640),
    "report-bandwidth": ("light", "#bandwidth", 900),
}


def take(page: Page, top: str, height: int) -> bytes:
    """A PNG of what is seen when `top` is at the top of the window."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    if top:
        page.locator(top).evaluate("(element) => element.scrollIntoView()")
    picture = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
    out = io.BytesIO()
    picture.convert("RGB").save(out, "PNG", optimize=True)  # without alpha, packed as well as can be
    return out.getvalue()


def main() -> int:
    html = render(a_subject())
    with started() as browser:
        for name, (scheme, top, height) in PICTURES.items():
            page = browser.new_page(color_scheme=scheme, reduced_motion="reduce")
            page.set_content(html)
            raw = take(page, top, height)
            (FOLDER / f"{name}.png").write_bytes(raw)
            print(f"docs/images/{name}.png: {len(raw) // 1000} kB")
            page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
