"""Every block of Python in README.md and docs/ runs as printed, page by page, from the first block to the last.

So do the examples in the docstrings of what `import hornbeam` offers. A block that a machine without a GPU, or without
the internet, cannot run has a comment before it that says why: `<!-- not run: needs a GPU -->`.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import hornbeam as hb
from hornbeam.testing.data import make_higgs_like

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


def examples() -> list[doctest.DocTest]:
    """Return the examples of the public functions and classes, in one place each."""
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    offered = [getattr(hb, name) for name in hb.__all__ if not name.startswith("_")]
    return [test for thing in offered for test in finder.find(thing, thing.__name__) if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_examples_of_docstrings_give_what_they_show(example):
    X, y = make_higgs_like(2_000, seed=0)
    X_valid, y_valid = make_higgs_like(500, seed=1)
    example.globs = {"hb": hb, "X": X, "y": y, "X_valid": X_valid, "y_valid": y_valid}
    texts: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=texts.append)
    assert result.failed == 0, "".join(texts)
