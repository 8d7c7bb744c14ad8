"""Every block of Python in README.md and docs/ runs as printed, page by page, from the first block to the last.

A block that a machine without a GPU, or without the internet, cannot run has a comment before it that says why:
`<!-- not run: needs a GPU -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?P<reason><!-- not run: [^>]+ -->\n+)?^```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Return line number and code of the blocks that are to be run."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start("code")) + 1, match["code"])
        for match in BLOCK.finditer(text)
        if match["reason"] is None
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_blocks_run_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page):
        try:
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
        except Exception as error:
            raise AssertionError(f"{page.name}, the block at line {line}: {type(error).__name__}: {error}") from error
