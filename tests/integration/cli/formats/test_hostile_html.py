"""Test code can forge a report: what it puts into a page stays text, and if it did not, it would not run."""

from disttest_cli.formats.html import render
from tests.support.browsers.browser import Open
from tests.support.reports.hostile import a_hostile_subject

SMUGGLED = (
    "<script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    '<img src="https://example.invalid/seen.png">',
    '<iframe srcdoc="<script>parent.document.title = 1</script>"></iframe>',
    "<style>main { display: none }</style>",
    '<link rel="stylesheet" href="https://example.invalid/style.css">',
    '<p style="position: fixed; inset: 0; background: red" id="cover">covered</p>',
)


def test_nothing_of_a_forged_report_runs_or_is_fetched(open_page: Open) -> None:
    opened = open_page(render(a_hostile_subject()))
    page = opened.page
    assert page.title().startswith("Hung: ")
    assert (opened.said, opened.requests) == ([], [])
    assert page.locator("script").count() == 1
    assert page.locator("img, iframe, object, embed, link, [style], [onmouseover], [onerror]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert opened.violations() == []


def test_what_cannot_be_seen_is_shown(open_page: Open) -> None:
    text = open_page(render(a_hostile_subject())).page.locator("body").inner_text()
    shown = (
        r"\x1b[31mred",
        r"null\x00",
        r"user\u202etxt.exe",
        r"zero\u200bwidth",
        r"half \ud800 a pair",
        "{{ 7 * 7 }}",
    )
    for seen in shown:
        assert seen in text, seen
    for unseen in "\x1b\x00\x9b\u202e\u2066\u200b\ufeff":
        assert unseen not in text, f"U+{ord(unseen):04X}"


def test_what_is_not_ours_is_stopped_by_the_policy(night: str, open_page: Open) -> None:
    """A second wall: markup is put into the page behind the back of what escapes it."""
    opened = open_page(night.replace("<footer>", f"{''.join(SMUGGLED)}<footer>", 1))
    page = opened.page
    page.locator("#cover").wait_for()
    assert page.title().startswith("Hung: ")
    assert page.locator("main").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('#cover')).position") == "static"
    assert opened.requests == []
    stopped = [line for line in opened.said if "Content Security Policy" in line]
    assert len(stopped) >= len(SMUGGLED), "the browser reports each violation"
