"""Commands in the documentation: their scripts are there, take the options named, and import what is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *BENCHMARKS, *(ROOT / "examples").glob("*.py")]
COMMAND = re.compile(r"python (benchmarks/\w+\.py|examples/\w+\.py|-m hornbeam[\w.]*)([^`\n#\"]*)")


def commands() -> list[tuple[str, str, str]]:
    """Return (text, script, arguments) of every command that a text names."""
    return [
        (text.name, script, arguments)
        for text in TEXTS
        for script, arguments in COMMAND.findall(text.read_text(encoding="utf-8"))
    ]


def source_of(script: str) -> Path:
    if not script.startswith("-m "):
        return ROOT / script
    module = ROOT / "src" / script.removeprefix("-m ").replace(".", "/")
    return module.with_suffix(".py") if module.with_suffix(".py").exists() else module / "__main__.py"


def defined(tree: ast.Module) -> set[str]:
    """Return the names that a module has at its top."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
        else:
            found.update(name.id for name in ast.walk(node) if isinstance(name, ast.Name))
    return found


def test_documented_commands_name_scripts_and_options_that_exist():
    named = commands()
    assert len(named) > 40
    for text, script, arguments in named:
        source = source_of(script)
        assert source.exists(), f"{text}: {script}"
        known = source.read_text(encoding="utf-8")
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", arguments):
            assert f'"{option}"' in known, f"{text}: {script} does not take {option}"


@pytest.fixture(scope="module")
def tops() -> dict[str, set[str]]:
    """The names at the top of each benchmark."""
    return {script.stem: defined(ast.parse(script.read_text(encoding="utf-8"))) for script in BENCHMARKS}


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda script: script.stem)
def test_benchmarks_import_from_one_another_what_is_there(script, tops):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in tops:
            assert {alias.name for alias in node.names} <= tops[node.module], f"from {node.module}"
