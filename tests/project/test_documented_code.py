"""Every block of code in README.md and docs/ runs as printed, page by page, from the first block to the last.

Blocks of Python run in this process, and programs in C are compiled. So do the examples in the docstrings of what
`import hornbeam` offers; commands of a shell are run by tests/cli/test_documented_commands.py. A block that takes a
package which may not be there has a comment before it, `<!-- needs: mlflow -->` or `<!-- needs: scikit-learn>=1.9 -->`:
where that is not installed, the others run and the page is reported as skipped. A block that takes a device says
`<!-- not run: needs a GPU -->`.
"""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

import hornbeam as hb
from hornbeam.testing import data

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>not run|needs): (?P<what>[^>]+(?:>=[^>]+)?) -->\n+)?^```(?P<language>[a-z]+)\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
FEW, make = 500, data.make_higgs_like
"""Pages show data of a size that gives good models; here their generator makes so many rows at most."""
RUN_HERE = ("python", "c")
RUN_ELSEWHERE = ("bash", "console", "text")  # test_documented_commands.py, and pictures


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text(encoding="utf-8")))


def is_there(needed: str) -> bool:
    """Say whether a package is installed, in a version at least as new as the one named."""
    name, _, least = needed.partition(">=")
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return [int(part) for part in re.findall(r"\d+", version)] >= [int(part) for part in re.findall(r"\d+", least)]


def run_c(code: str) -> None:
    """Compile a program in the folder of the page, and run it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    Path("program.c").write_text(code, encoding="utf-8")
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "-O1", "program.c", "-o", "program"], check=True)
    subprocess.run(["./program"], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block["language"] in RUN_HERE for block in blocks(page))],
    ids=lambda page: page.name,
)  # fmt: skip
def test_blocks_run_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(data, "make_higgs_like", lambda n_rows, *args, **named: make(min(n_rows, FEW), *args, **named))
    names: dict[str, object] = {"__name__": "__main__"}
    left_out = set()
    for block in blocks(page):
        if block["language"] not in RUN_HERE or block["mark"] == "not run":
            continue
        if block["mark"] == "needs" and not is_there(block["what"]):
            left_out.add(block["what"])
            continue
        line = block.string.count("\n", 0, block.start("code")) + 1
        try:
            if block["language"] == "c":
                run_c(block["code"])
            else:
                exec(compile("\n" * (line - 1) + block["code"], str(page), "exec"), names)
        except Exception as error:
            raise AssertionError(f"{page.name}, the block at line {line}: {type(error).__name__}: {error}") from error
    if left_out:
        pytest.skip(f"all blocks ran but those that need {', '.join(sorted(left_out))}")


def test_only_blocks_that_need_a_device_are_never_run():
    reasons = [block["what"] for page in PAGES for block in blocks(page) if block["mark"] == "not run"]
    assert set(reasons) <= {"needs a GPU"}
    languages = {block["language"] for page in PAGES for block in blocks(page)}
    assert languages <= {*RUN_HERE, *RUN_ELSEWHERE}


def examples() -> list[doctest.DocTest]:
    """Return the examples of the public functions and classes, in one place each."""
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    offered = [getattr(hb, name) for name in hb.__all__ if not name.startswith("_")]
    return [test for thing in offered for test in finder.find(thing, thing.__name__) if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_examples_of_docstrings_give_what_they_show(example):
    X, y = make(2_000, seed=0)
    X_valid, y_valid = make(500, seed=1)
    example.globs = {"hb": hb, "X": X, "y": y, "X_valid": X_valid, "y_valid": y_valid}
    texts: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=texts.append)
    assert result.failed == 0, "".join(texts)
