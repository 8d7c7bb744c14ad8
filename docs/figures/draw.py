"""Draw the figures of the documentation from the tables in docs/benchmarks.md: `python docs/figures/draw.py`.

A comment `<!-- figure: cpu -->` marks a table. The drawings are bars with the milliseconds beside them, in colours that
can be read on white and on black; each row of a figure has a scale of its own, so that small and large data fit.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "benchmarks.md"
COLOURS = {"Hornbeam": "#1f9e78", "LightGBM": "#8a7fd1", "XGBoost": "#d08a3c"}
TEXT = "#767f89"  # contrast of 4 to 1 and more on white, and on the dark pages of GitHub and of the site
WIDTH, LABEL, BAR, GAP, VALUE = 580, 190, 15, 12, 68


class Row(NamedTuple):
    """A line of a table: what was trained, and the milliseconds of each library."""

    name: str
    values: dict[str, str]


def tables() -> dict[str, list[Row]]:
    """Return the marked tables of the page, by name."""
    found: dict[str, list[Row]] = {}
    for name, table in re.findall(r"<!-- figure: (\w+) -->\n+((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8")):
        header, _, *lines = [[cell.strip(" *") for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
        libraries = [title.split()[0] if title else "" for title in header]
        found[name] = [
            Row(line[0], {libraries[i]: line[i] for i in (1, 2, 3) if libraries[i] in COLOURS}) for line in lines
        ]
    return found


def panel(title: str, rows: list[Row], top: float) -> tuple[list[str], float]:
    """Return the elements of a panel whose upper edge is at `top`, and its lower edge."""
    parts = [f'<text x="0" y="{top + 15:g}" class="title">{escape(title)}</text>']
    y = top + 32.0
    for row in rows:
        times = {library: float(value) for library, value in row.values.items()}
        height = BAR * len(times)
        parts.append(f'<text x="{LABEL - 12}" y="{y + height / 2 + 4:g}" text-anchor="end">{escape(row.name)}</text>')
        for library, time in times.items():
            length = (WIDTH - LABEL - VALUE) * time / max(times.values())
            bold = ' class="best"' if time == min(times.values()) else ""
            place = f'x="{LABEL}" y="{y:g}" width="{length:.1f}" height="{BAR - 3}"'
            parts.append(f'<rect {place} rx="2" fill="{COLOURS[library]}"/>')
            parts.append(f'<text x="{LABEL + length + 6:.1f}" y="{y + 10:g}"{bold}>{row.values[library]} ms</text>')
            y += BAR
        y += GAP
    return parts, y


def picture(panels: list[tuple[str, list[Row]]], description: str) -> str:
    """Return an SVG of panels one below the other, with a legend of the libraries that are in them."""
    parts, y = [], 0.0
    shown = [library for library in COLOURS if any(library in row.values for _, rows in panels for row in rows)]
    for number, library in enumerate(shown):
        x = LABEL + 100 * number
        parts.append(f'<rect x="{x}" y="3" width="12" height="12" rx="2" fill="{COLOURS[library]}"/>')
        parts.append(f'<text x="{x + 18}" y="13">{library}</text>')
    y = 28.0
    for title, rows in panels:
        drawn, y = panel(title, rows, y)
        parts += drawn
    style = (
        f"text{{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:{TEXT}}}"
        f".title{{font-size:13px;font-weight:600}}.best{{font-weight:700}}"
    )
    size = f'viewBox="0 0 {WIDTH} {y:g}" width="{WIDTH}" height="{y:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        f"<title>{escape(description)}</title>\n<style>{style}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def figures() -> dict[str, str]:
    """Return every figure, by the name of its file."""
    of = tables()
    cpu = "CPU, 2 cores of an Arm Neoverse-N1: time of an iteration"
    gpu = "GPU, one NVIDIA H200, 255 leaves: time of an iteration"
    best_of_gpu = [row for row in of["gpu"] if row.name.startswith(("Higgs", "MS-LTR", "epsilon"))]
    return {
        "speed.svg": picture([(cpu, of["cpu"][:2]), (gpu, best_of_gpu)], "Milliseconds an iteration, less is better"),
        "cpu.svg": picture([(cpu, of["cpu"]), ("Other workloads on the same CPU", of["workloads"])], cpu),
        "gpu.svg": picture([(gpu, of["gpu"])], gpu),
    }


if __name__ == "__main__":
    for file, drawing in figures().items():
        (FOLDER / file).write_text(drawing, encoding="utf-8")
        print(FOLDER / file)
