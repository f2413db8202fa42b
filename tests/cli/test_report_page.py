"""The report in a browser: what a reader does with it, on a desk, on a phone, on paper."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from support.browser import DESKTOP, PHONE, chromium, emulate, resize
from support.commands import in_process
from support.month import END, Month
from support.past import Past

from wcache.core.model import events as ev
from wcache.core.model.vocabulary import Outcome, Reason

ATTACHES = 40
HOSTILE = "/models/<img src=x onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A month, and a ledger with a long list in it."""
    folder = tmp_path_factory.mktemp("pages")
    month = Month(folder / "month")
    past = Past(folder / "many.sqlite")
    now_ns = int(END.timestamp()) * 1_000_000_000
    for number in range(ATTACHES):
        asked = ev.Identity(HOSTILE if number == 7 else f"/models/m-{number:02d}")
        outcome, reason = (Outcome.STRICT_MISS, Reason.SUSPECT) if number % 4 == 0 else (Outcome.FALLBACK, Reason.NOT_RESIDENT)
        past.decided(
            asked, None, outcome=outcome, reason=reason, launch=f"l-{number}", occurred_ns=now_ns - (number + 1) * 3600 * 1_000_000_000
        )
    past.ledger.close()
    made = []
    for name, ledger in (("month", month.path), ("many", folder / "many.sqlite")):
        out = folder / f"{name}.html"
        with freeze_time(END):
            done = in_process({"WCACHE_LEDGER": str(ledger)})("report", "--since", "30d", "--format", "html", "--out", str(out))
        assert done.returncode in (0, 1), done.stderr
        made.append(out)
    return made[0], made[1]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def open_page(browser: Any, pages: tuple[Path, Path]) -> Any:
    def opened(number: int, size: tuple[int, int] = DESKTOP) -> Any:
        emulate(browser)
        resize(browser, size)
        browser.get(pages[number].as_uri())
        return browser

    return opened


def shown(browser: Any, name: str) -> list[Any]:
    rows: list[Any] = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter(row => row.checkVisibility())", f"#{name} tbody tr"
    )
    return rows


def test_it_loads_nothing_and_the_browser_has_nothing_to_complain_of(open_page: Any, pages: tuple[Path, Path]) -> None:
    for number in (0, 1):
        page = open_page(number)
        page.get_log("performance")  # what the browser did to begin
        page.refresh()
        assert page.get_log("browser") == []
        asked = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
        urls = {item["params"]["request"]["url"].partition("#")[0] for item in asked if item["method"] == "Network.requestWillBeSent"}
        assert urls == {pages[number].as_uri()}
        assert page.title.startswith("wcache report, ")  # what a path says is not run


def test_it_is_clicked_through(open_page: Any) -> None:
    page = open_page(0)
    questions = [
        (card.find_element("tag name", "h3").text, card.find_element("class name", "verdict").text)
        for card in page.find_elements("class name", "card")
    ]
    assert [question for question, _ in questions] == [
        "Is the record whole?", "Were wrong weights served?", "What was not mapped?", "What is unproven?",
    ]  # fmt: skip
    assert [verdict.split("\n")[-1] for _, verdict in questions] == ["In order", "Problem", "To be judged", "To be judged"]
    links = page.find_elements("css selector", "nav a, .to-rows a")
    assert len(links) > 12
    for link in links:
        target = link.get_attribute("href").partition("#")[2]
        page.execute_script("arguments[0].click()", link)
        assert page.execute_script("return location.hash") == f"#{target}"
        assert page.find_element("id", target).is_displayed(), target
    details = page.find_element("tag name", "details")
    assert not details.find_element("tag name", "table").is_displayed()
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", details)
    details.find_element("tag name", "summary").click()
    assert len(details.find_elements("css selector", "tbody tr")) == 30 and details.find_element("tag name", "table").is_displayed()
    (wrong,) = shown(page, "wrong_hit")
    assert "assistant-8b-tuned" in wrong.text and "gpu-03" in wrong.text and "refuted" in wrong.text


def test_a_long_list_is_folded_found_in_and_sorted(open_page: Any) -> None:
    page = open_page(1)
    assert len(shown(page, "not_mapped")) == 12
    every = page.find_element("css selector", "#not_mapped button.all")
    assert every.text == f"Show all {ATTACHES} rows"
    every.click()
    assert len(shown(page, "not_mapped")) == ATTACHES and every.text == "Show fewer"

    field = page.find_element("css selector", "#not_mapped input")
    field.send_keys("suspect strict")
    assert len(shown(page, "not_mapped")) == 10
    assert page.find_element("css selector", "#not_mapped [role=status]").text == f"10 of {ATTACHES}"
    field.clear()
    field.send_keys("img src")
    (hostile,) = shown(page, "not_mapped")
    assert HOSTILE in hostile.text
    field.clear()
    field.send_keys(" ")

    head = page.find_element("xpath", "//section[@id='not_mapped']//th[.//button[starts-with(., 'Seq')]]")
    head.find_element("tag name", "button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    head.find_element("tag name", "button").click()
    assert head.get_attribute("aria-sort") == "descending"
    seqs = [
        int(text) for text in page.execute_script("return arguments[0].map(row => row.cells[0].textContent)", shown(page, "not_mapped"))
    ]
    assert seqs == sorted(seqs, reverse=True) and len(seqs) == ATTACHES


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_nothing_is_wider_than_the_screen_and_letters_stay_readable(open_page: Any, size: tuple[int, int]) -> None:
    for number in (0, 1):
        page = open_page(number, size)
        assert page.execute_script("return document.documentElement.scrollWidth") <= size[0]
        small = page.execute_script(
            "return [...document.querySelectorAll('body *')].filter(e => e.firstChild?.nodeType === 3 && e.offsetParent"
            " && parseFloat(getComputedStyle(e).fontSize) < 9).map(e => e.outerHTML.slice(0, 80))"
        )
        assert small == []
        wide = page.execute_script(
            "return [...document.querySelectorAll('main p, main h2, main h3, main dd, .card, figure svg')].filter(e =>"
            " e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
        )
        assert wide == []


def test_who_cannot_see_it_has_names_for_everything(open_page: Any) -> None:
    page = open_page(0)
    unnamed = page.execute_script(
        "return [...document.querySelectorAll('svg:not([aria-hidden])')].filter(e => !e.getAttribute('aria-label')"
        " && !e.getAttribute('aria-labelledby')).length + [...document.querySelectorAll('table')].filter(e => !e.caption).length"
        " + [...document.querySelectorAll('[aria-labelledby]')].filter(e =>"
        " !document.getElementById(e.getAttribute('aria-labelledby'))).length"
        " + [...document.querySelectorAll('input')].filter(e => !e.getAttribute('aria-label')).length"
    )
    assert unnamed == 0
    levels = [int(head.tag_name[1]) for head in page.find_elements("css selector", "h1, h2, h3")]
    assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))


def test_dark_where_the_reader_has_it_dark(open_page: Any) -> None:
    page = open_page(0)
    background = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(background)
    emulate(page, scheme="dark")
    assert page.execute_script(background) != light


def test_on_paper_every_row_is_there_and_no_control(open_page: Any, tmp_path: Path) -> None:
    page = open_page(1)
    emulate(page, media="print")
    assert len(shown(page, "not_mapped")) == ATTACHES
    assert not any(part.is_displayed() for part in page.find_elements("css selector", "nav, .tools, button.all"))
    emulate(page)
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
