"""The commands of docs/cli.md run as printed, in order, and print the lines that are shown below them.

Blocks of ```bash are scripts. In blocks of ```console a line `$ command` is run, and the lines below it are found in
what it prints, whatever the spaces. Commands of `hornbeam` alone run in this process, others in a shell.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hornbeam.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n+)?^```(bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def in_shell(script: str, folder: Path) -> str:
    """Run a script with a command `hornbeam` that is this checkout's."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name, words in (("hornbeam", f"{shlex.quote(sys.executable)} -m hornbeam"), ("python", sys.executable)):
        (tools / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (tools / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-e", "-c", script], env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{script}\n{ended.stderr}"
    return ended.stdout


def run_line(line: str, folder: Path) -> str:
    if not line.startswith("hornbeam ") or re.search(r"[|<>]", line):
        return in_shell(line, folder)
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    expected = (0, 1) if line.startswith("hornbeam diff") else (0,)
    assert result.exit_code in expected, f"{line}\n{result.output}"
    return result.stdout


@pytest.mark.skipif(os.name != "posix", reason="the page speaks to a POSIX shell")
def test_commands_of_the_page_run_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    n_commands = 0
    for reason, kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if reason:
            continue
        if kind == "bash":
            in_shell(text, tmp_path)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            printed = [" ".join(line.split()) for line in run_line(command, tmp_path).splitlines()]
            for line in shown:
                assert " ".join(line.split()) in printed, f"{command}: {line!r} is not among {printed}"
            n_commands += 1
    assert n_commands > 10
