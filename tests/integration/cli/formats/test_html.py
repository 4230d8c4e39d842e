"""The HTML report, as people meet it: opened from a file, read, filtered, by keyboard, in the dark, on a phone."""

import io
import re

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from disttest_contract.outcomes import Outcome
from tests.support.browsers.browser import Open
from tests.support.reports.reports import a_night

PHONE = {"width": 400, "height": 800}
FILTERED_WITHIN_MILLISECONDS = 1500  # a tenth of it is usual
FILTERING = """async (words) => {
  const box = document.querySelector("#search"), started = performance.now();
  box.value = words;
  box.dispatchEvent(new Event("input", {bubbles: true}));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - started;
}"""
OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"


def shown(page: Page) -> list[str]:
    """Ids of the cases that the table of all cases has now."""
    ids: list[str] = page.evaluate("[...document.querySelectorAll('#all tbody tr')].map((row) => row.dataset.t)")
    return ids


def is_open(page: Page, place: str) -> bool:
    return bool(page.locator(place).evaluate("(element) => element.open"))


def test_a_table_of_few_cases_takes_no_more_room_than_they_need(short_night: str, open_page: Open) -> None:
    page = open_page(short_night).page
    rows = page.locator("#all tbody tr").count()
    assert 3 < rows < 40
    place = page.locator("#all").bounding_box()
    assert place is not None
    assert place["height"] < rows * 100


def test_the_first_screen_says_what_where_and_what_to_do(night: str, open_page: Open) -> None:
    opened = open_page(night)
    top = opened.page.locator(".verdict")
    expect(top).to_be_in_viewport(ratio=1)
    expect(top).to_contain_text("Hung")
    expect(top).to_contain_text("gpu-ci/nightly-2x8-7d4kq")
    expect(top).to_contain_text("rank 9 on gpu-node-23")
    expect(top).to_contain_text("gpu-node-23 failed in 4 of 5 failures")
    expect(top).to_contain_text("rank that did not join the collective")
    assert (opened.said, opened.requests) == ([], [])


@pytest.mark.parametrize(("scheme", "brightness"), [("light", range(200, 256)), ("dark", range(50))])
def test_everybody_can_use_it_in_light_and_dark(
    short_night: str, open_page: Open, scheme: str, brightness: range
) -> None:
    opened = open_page(short_night, color_scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert opened.violations() == []
    picture = Image.open(io.BytesIO(opened.page.screenshot())).convert("L")
    assert picture.getpixel((4, picture.height // 2)) in brightness
    assert len(picture.getcolors() or ()) > 50, "there is next to nothing on this picture"


def test_the_theme_can_be_chosen(night: str, open_page: Open) -> None:
    page = open_page(night, color_scheme="dark").page
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(245, 246, 248)"
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(245, 246, 248)"
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 21, 26)"


def test_cases_are_filtered_by_words_outcome_and_suite(night: str, open_page: Open) -> None:
    page = open_page(night).page
    count = page.locator("#shown")
    expect(count).to_have_text("400 cases")
    page.get_by_label("Search").fill("PIPELINE test_gradients")
    expect(count).to_have_text("35 of 400 cases")
    page.locator("#outcome").select_option("hung")
    expect(count).to_have_text("1 of 400 cases")
    expect(page.locator("#all tbody tr")).to_contain_text("ScheduleInterleaved1F1B")
    page.locator("#suite").select_option("collectives")
    expect(page.locator("#none")).to_be_visible()
    page.locator("#none button").click()
    expect(count).to_have_text("400 cases")
    expect(page.get_by_label("Search")).to_be_focused()
    page.locator("#outcome").select_option("flaky")
    expect(count).to_have_text("1 of 400 cases")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_as_many_rows_as_the_report_has_cases(night: str, outcome: Outcome) -> None:
    rows = re.findall(rf'<tr class="{outcome.value}" data-t', night)
    assert len(rows) == a_night().counts[outcome]


def test_cases_are_sorted_by_time(night: str, open_page: Open) -> None:
    page = open_page(night).page
    head, in_order = page.locator("#by-time"), shown(page)
    head.get_by_role("button").click()
    assert shown(page) == sorted(in_order, key=lambda seconds: -float(seconds))
    expect(head).to_have_attribute("aria-sort", "descending")
    head.get_by_role("button").click()
    assert shown(page) == sorted(in_order, key=float)
    expect(head).to_have_attribute("aria-sort", "ascending")
    head.get_by_role("button").click()
    assert shown(page) == in_order


def test_a_failure_opens_by_mouse_keyboard_and_link(night: str, open_page: Open) -> None:
    page = open_page(night).page
    assert is_open(page, "#case-1"), "the worst one is open from the start"
    stack = page.locator("#case-1").get_by_text("self.not_empty.wait()")
    expect(stack).to_be_visible()
    summary = page.locator("#case-1 > summary")
    summary.click()
    expect(stack).to_be_hidden()
    summary.focus()
    page.keyboard.press("Enter")
    expect(stack).to_be_visible()
    page.locator("#outcome").select_option("crashed")
    page.locator("#all").get_by_role("link").click()
    assert is_open(page, "#case-2")
    expect(page.locator("#case-2 > summary")).to_be_focused()
    expect(page.locator("#case-2")).to_contain_text("rank 13 on gpu-node-23 was killed by SIGSEGV")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(night: str, open_page: Open) -> None:
    page = open_page(night).page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    reached = set()
    for _ in range(90):
        page.keyboard.press("Tab")
        where, outline = page.evaluate(
            "(() => { const one = document.activeElement;"
            " return [one.id || one.className || one.tagName, getComputedStyle(one).outlineStyle]; })()"
        )
        if where == "BODY":  # behind the last one
            break
        assert outline != "none", f"the focus on {where} cannot be seen"
        reached.add(where)
    assert {"SUMMARY", "scroll", "PRE", "A", "search", "outcome", "suite"} <= reached


def test_ranks_that_differed_and_bandwidths_have_words_next_to_their_colours(night: str, open_page: Open) -> None:
    page = open_page(night).page
    row = page.locator("#ranks tbody tr", has_text="test_optimizer")
    endings = row.locator("td").all_inner_texts()
    assert [text.split() for text in endings] == [["·", "passed"]] * 8 + [["E", "errored"]] * 8
    assert page.locator("#ranks thead th[scope=colgroup]").all_inner_texts() == ["gpu-node-17", "gpu-node-23"]
    assert page.locator("#bandwidth figure").count() == 10
    missed = page.locator("#bandwidth figure.missed")
    expect(missed).to_have_count(1)
    expect(missed).to_contain_text("threshold 70.0 GB/s at 8 GiB: missed, float32 reached 57.4 GB/s")
    label = missed.get_by_role("img").get_attribute("aria-label") or ""
    assert "all_to_all" in label
    assert "missed" in label
    missed.get_by_text("Numbers").click()
    expect(missed.get_by_role("row", name="8 GiB float32")).to_contain_text("57.4 GB/s")
    expect(page.locator("#environment tr.differs")).to_have_count(3)


def test_five_thousand_cases_are_filtered_at_once_and_fit_a_phone(long_night: str, open_page: Open) -> None:
    opened = open_page(long_night, viewport=PHONE)
    page = opened.page
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate(FILTERING, "test_other part_3") < FILTERED_WITHIN_MILLISECONDS
    expect(page.locator("#shown")).to_have_text("250 of 5,000 cases")
    page.locator("#cases").scroll_into_view_if_needed()
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate("document.querySelectorAll('#timeline rect').length") < 1000
    assert (opened.said, opened.requests) == ([], [])


def test_a_phone_shows_a_bad_night_without_scrolling_sideways(night: str, open_page: Open) -> None:
    page = open_page(night, viewport=PHONE).page
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(OVERFLOW) <= 0


def test_without_a_script_it_can_be_read(night: str, open_page: Open) -> None:
    page = open_page(night, java_script_enabled=False).page
    expect(page.locator("#all tbody tr")).to_have_count(400)
    for control in (".filters", "#theme", ".tools"):
        expect(page.locator(control).first).to_be_hidden()
    page.locator("#case-3 > summary").click()
    expect(page.locator("#case-3 pre").get_by_text("CUDA error: out of memory").first).to_be_visible()


def test_on_paper_there_are_cases_and_no_buttons(night: str, open_page: Open) -> None:
    page = open_page(night).page
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.locator(".filters")).to_be_hidden()
    expect(page.locator("header.top")).to_be_hidden()
    expect(page.locator("#all tbody tr").last).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
