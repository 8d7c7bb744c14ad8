"""Reports in a real browser: every tab, slider and tree; no error, no request. Skipped where there is no Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hornbeam as hb

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-companions has it")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MOVE = "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')) }"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def watched(browser) -> Iterator[tuple[Any, list[str]]]:
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith("file:") else trouble.append(request.url))
    yield page, trouble
    page.close()


@pytest.mark.parametrize("width", [1200, 390])
def test_every_tab_opens_without_errors_or_requests(case, watched, width):
    page, trouble = watched
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(case.path.as_uri())
    links = page.locator("nav a")
    assert links.count() == 9
    for place in range(links.count()):
        links.nth(place).click()
        shown = page.locator("main > section:visible")
        assert shown.count() == 1 and "#" + shown.get_attribute("id") == links.nth(place).get_attribute("href")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert "NaN" not in shown.inner_text()
    assert page.evaluate("window.hacked") is None
    assert trouble == []


def test_slider_moves_the_confusion_matrix_and_the_cost(binary, watched):
    page, trouble = watched
    page.goto(binary.path.as_uri() + "#quality")

    def cells() -> list[int]:
        return [int(page.inner_text(f"#{name}").replace(",", "")) for name in ("tn", "fp", "fn", "tp")]

    predicted, label = binary.booster.predict(binary.valid.data), binary.valid.label > 0
    for place in (0, 40, 90):
        page.locator("#threshold").evaluate(MOVE, place)
        cut = float(page.inner_text("#threshold-value"))
        called = predicted >= cut
        expected = [(~label & ~called).sum(), (~label & called).sum(), (label & ~called).sum(), (label & called).sum()]
        assert cells() == [int(count) for count in expected]
        page.fill("#cost-fn", "10")
        assert float(page.inner_text("#cost").replace(",", "")) == expected[1] + 10 * expected[2]
    page.click("#cheapest")
    least = float(page.inner_text("#cost").replace(",", ""))
    assert all(
        least <= ((~label & (predicted >= cut)).sum() + 10 * (label & (predicted < cut)).sum())
        for cut in (0.1, 0.2, 0.3, 0.5, 0.9)
    )
    assert trouble == []


def test_browser_of_trees_traces_rows(binary, watched):
    page, trouble = watched
    page.goto(binary.path.as_uri() + "#trees")
    tree = binary.booster.trees[0]
    assert f"{tree.n_leaves} leaves" in page.inner_text("#tree-facts")
    number = int(page.locator("#tree-row option").nth(1).inner_text().split()[0])
    leaf = int(binary.booster.predict(binary.valid.data[number : number + 1], pred_leaf=True)[0, 0])
    assert f"leaf {leaf}," in page.inner_text("#tree-facts")
    assert page.locator("#tree-view g.leaf.on title").text_content() == f"leaf {leaf}"
    page.click("#tree-next")
    assert page.input_value("#tree") == "1"
    page.select_option("#tree-row", "")
    assert page.locator("#tree-view g.on").count() == 0
    assert trouble == []


def test_large_trees_are_opened_by_clicks(watched, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    params = {"num_leaves": 24, "min_data_in_leaf": 2, "device": "reference", "verbosity": -1}
    booster = hb.train(params, hb.Dataset(X, label=X[:, 0] * X[:, 1]), 1)
    booster.report(tmp_path / "report.html", (X, X[:, 0] * X[:, 1]), sample_rows=20, bootstrap=0)
    page, trouble = watched
    page.goto((tmp_path / "report.html").as_uri() + "#trees")
    tree, drawn = booster.trees[0], page.locator("#tree-view g")
    assert 1 < drawn.count() < 2 * tree.n_leaves - 1
    assert page.locator("#tree-view g.leaf.on").count() == 1  # the way of the row is open
    closed = page.locator("#tree-view g.closed")
    while closed.count():
        closed.first.click()
    assert drawn.count() == 2 * tree.n_leaves - 1
    page.locator("#tree-view g[data-split='0']").press("Enter")
    assert drawn.count() == 1 and f"{tree.n_leaves} leaves" in drawn.text_content()
    assert trouble == []


def test_light_and_dark_follow_the_system_and_the_button(binary, browser):
    for scheme, other in (("light", "dark"), ("dark", "light")):
        page = browser.new_page(color_scheme=scheme)
        page.goto(binary.path.as_uri())
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == other
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        page.close()


def test_print_shows_every_section_on_white(binary, watched):
    page, _ = watched
    page.set_viewport_size({"width": 794, "height": 1123})  # A4
    page.goto(binary.path.as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("main > section:visible").count() == 9
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
