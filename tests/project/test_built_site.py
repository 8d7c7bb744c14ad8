"""The documentation site in a real browser: no page loads anything from elsewhere, fails, or is too wide for a phone.

Skipped where MkDocs or Chromium is missing; `make test-companions` has the first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install 'hornbeam[site]'")
pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'hornbeam[site]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> list[Path]:
    return sorted(page for page in site.rglob("*.html") if page.name != "404.html")


def test_no_page_names_a_script_or_a_style_of_another_site(pages):
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for tag in ("<script", "<link", "<img", "<iframe"):
            for part in text.split(tag)[1:]:
                assert "://" not in part.partition(">")[0], f"{page.name}: {tag}{part.partition('>')[0]}>"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_pages_open_without_errors_or_requests_and_search_finds(site, pages):
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-companions has it")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 390, "height": 800})
        trouble: list[str] = []
        tab.on("console", lambda message: trouble.append(message.text))
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        local = ("file:", "data:", "blob:")
        tab.on("request", lambda request: None if request.url.startswith(local) else trouble.append(request.url))
        for page in pages:
            tab.goto(page.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390, page.name
            assert trouble == [], page.name
        tab.set_viewport_size({"width": 1280, "height": 800})
        tab.goto((site / "index.html").as_uri())
        tab.locator("[name=query]").click()
        tab.locator(".md-search-result__meta", has_text="Type").wait_for()  # the index is there
        tab.keyboard.type("num_leaves")
        tab.locator(".md-search-result__item").first.wait_for()
        assert trouble == []
        browser.close()
