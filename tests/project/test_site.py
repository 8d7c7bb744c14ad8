"""The documentation holds together: links lead somewhere, every page is in the navigation, figures are new."""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\((?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]+))?\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page: Path) -> set[str]:
    """Return the names that headings of a page have in links, as Markdown makes them."""
    names = set()
    for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
        names.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_exist(page):
    for match in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        if ":" in match["target"]:
            continue
        target = (page.parent / match["target"]).resolve() if match["target"] else page
        assert target.exists(), f"{match[0]} leads nowhere"
        if match["anchor"] is not None:
            assert match["anchor"] in anchors(target), f"{match[0]}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pictures_exist(page):
    for names in PICTURE.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / (names[0] or names[1])).exists()


def test_figures_show_what_the_tables_say():
    draw = load(DOCS / "figures" / "draw.py")
    for file, drawing in draw.figures().items():
        shown = (DOCS / "figures" / file).read_text(encoding="utf-8")
        assert shown == drawing, f"{file} is old: python docs/figures/draw.py"


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages <= named, f"not in mkdocs.yml: {sorted(pages - named)}"


def test_navigation_drops_missing_pages_and_adds_others(tmp_path):
    pytest.importorskip("mkdocs")
    hooks = load(DOCS / "hooks.py")
    (tmp_path / "dev").mkdir()
    for name in ("index.md", "new.md", "dev/deep.md"):
        (tmp_path / name).write_text("# Page\n", encoding="utf-8")

    class Config:
        docs_dir = str(tmp_path)
        nav = ({"Start": ["index.md", {"Gone": "gone.md"}]}, {"Later": [{"Gone": "gone.md"}]})

    nav = hooks.on_config(Config()).nav
    assert nav[0] == {"Start": ["index.md"]}
    assert {"More": ["changelog.md", "contributing.md", "new.md"]} in nav
    assert {"Developers": ["dev/architecture.md", "dev/deep.md"]} in nav
    assert all("Later" not in entry for entry in nav)


def test_a_paragraph_after_the_parameters_is_no_parameter():
    pytest.importorskip("griffe")
    with_notes = load(DOCS / "griffe_groups.py").with_notes
    head = "Do it.\n\nParameters\n----------\na, b\n    Both.\nc\n    The third.\n\n"
    assert with_notes(head + "More\nabout it.") == head + "Notes\n-----\nMore\nabout it.\n"
    for tail in ("", "Returns\n-------\nint\n    A number.", "d\n    The fourth."):
        assert with_notes(head + tail) == head + tail
