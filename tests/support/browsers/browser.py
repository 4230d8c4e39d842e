"""A real headless browser, one for all tests of a session, and pages that report their actions."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from devcluster.machine.settings import DevClusterError
from devcluster.programs import browser as programs

WIDE = {"width": 1280, "height": 900}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A page, what it wrote to the console, and what it asked of the network."""

    page: Page
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        """What axe finds wrong for people who use the page in other ways than most: rule and first place."""
        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {len(one['nodes'])} times, first {one['nodes'][0]['html'][:300]}" for one in found]


Open = Callable[..., Opened]


@contextlib.contextmanager
def started() -> Iterator[Browser]:
    """The one that `make setup` got, else one of this machine. Raises ApiServerError if there is none."""
    found = programs.find()
    if found is None:
        raise DevClusterError(
            "no Chromium on PATH, and `make setup` could get none: Debian has it as chromium-headless-shell"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.program,
            env={**os.environ, **found.variables},
            chromium_sandbox=os.geteuid() != 0,  # its sandbox refuses root
        )
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")  # playwright leaves an event loop running as long as it is there
def browser() -> Iterator[Browser]:
    try:
        with started() as one:
            yield one
    except DevClusterError as error:
        pytest.skip(str(error))


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens text as a file, as after a download."""
    contexts: list[BrowserContext] = []

    def open_text(html: str, **options: Any) -> Opened:
        file = tmp_path / f"report-{len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce"} | options)
        contexts.append(context)
        opened = Opened(page=context.new_page())
        _listen(opened, file.as_uri())
        opened.page.goto(file.as_uri())
        return opened

    yield open_text
    for context in contexts:
        context.close()


def _listen(opened: Opened, own: str) -> None:
    def note(request: Request) -> None:
        if request.url != own:
            opened.requests.append(request.url)

    def strike(request: Request) -> None:
        if request.failure == "csp":  # the page's policy stopped it before it left
            opened.requests.remove(request.url)

    opened.page.on("console", lambda message: opened.said.append(message.text))
    opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.page.on("request", note)
    opened.page.on("requestfailed", strike)
