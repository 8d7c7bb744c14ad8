"""What MkDocs does besides: pages from the repository's root, and a navigation that fits the pages that are there.

- README's neighbours (CHANGELOG.md, CONTRIBUTING.md, ARCHITECTURE.md) become pages of the site, and links from them to
  `docs/x.md` and from pages to `../x.md` are turned accordingly.
- Links to files that are no pages (sources, benchmarks) become links to the repository, or plain text without one.
- An entry of the navigation in mkdocs.yml whose page does not exist is left out, and a page that no entry names is put
  under "More" (of docs/dev: under "Developers").
- No page loads anything from elsewhere: the script of another site that search from the disk takes is one of ours.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "dev/architecture.md",
}
"""Pages of the repository's root, and their places in the site."""

SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme's offline search loads; worker.js stands in for it."""

LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fit the navigation to the pages that are there."""
    folder = Path(config.docs_dir)
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")} | set(ROOT_PAGES.values())
    named: set[str] = set()
    nav = _present(config.nav or [], pages, named)
    for page in sorted(pages - named):
        section = "Developers" if page.startswith("dev/") else "More"
        _section(nav, section).append(page)
    config.nav = nav
    return config


def _present(entries: list[Any], pages: set[str], named: set[str]) -> list[Any]:
    """Return the entries whose pages exist; `named` gets their pages."""
    kept: list[Any] = []
    for entry in entries:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            inside = _present(value, pages, named)
            if inside:
                kept.append({title: inside})
        elif value in pages:
            named.add(value)
            kept.append(entry)
    return kept


def _section(nav: list[Any], title: str) -> list[Any]:
    """Return the entries of a section, which is made if need be."""
    for entry in nav:
        if isinstance(entry, dict) and isinstance(entry.get(title), list):
            return entry[title]  # type: ignore[no-any-return]
    nav.append({title: []})
    return nav[-1][title]  # type: ignore[no-any-return]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root."""
    root = Path(config.docs_dir).parent
    for source, place in ROOT_PAGES.items():
        files.append(File.generated(config, place, content=(root / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between the repository's root and docs/ into links between pages."""
    place = page.file.src_uri
    source = next((name for name, target in ROOT_PAGES.items() if target == place), f"docs/{place}")

    def turned(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["target"]))
        target = ROOT_PAGES.get(path) or path.removeprefix("docs/")
        if path == "README.md":
            target = "index.md"
        if (path.startswith("docs/") or path in ROOT_PAGES or path == "README.md") and files.get_file_from_path(target):
            relative = posixpath.relpath(target, posixpath.dirname(place) or ".")
            return f"[{match['text']}]({relative}{match['anchor'] or ''})"
        if path.startswith("docs/"):
            return match[0]  # a page that is missing: MkDocs says so
        if config.repo_url:
            return f"[{match['text']}]({config.repo_url.rstrip('/')}/blob/main/{path})"
        return match["text"]

    return LINK.sub(turned, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Let a page load nothing from elsewhere."""
    return output.replace(SHIM, posixpath.relpath("worker.js", posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Let the page for addresses that do not exist load nothing from elsewhere."""
    return output.replace(SHIM, "/worker.js")
