"""Charts as SVG. Colours are classes of style.css, so that light and dark need no second drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.markup import Markup, el, joined

FloatArray = NDArray[np.float64]

WIDTH, HEIGHT = 440, 270
CHARACTER = 6.3
"""Width of a character of a label, in pixels."""


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers from low to high."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low] if math.isfinite(low) else []
    rough = span / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def limits(*values: FloatArray, room: float = 0.05) -> tuple[float, float]:
    """Return the ends of an axis on which all finite values have room."""
    every = np.concatenate([np.asarray(part, np.float64).ravel() for part in values] or [np.zeros(1)])
    every = every[np.isfinite(every)]
    if not len(every):
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    more = (high - low) * room or abs(high) * 0.1 or 1.0
    return low - more, high + more


def short(text: str, limit: int) -> str:
    """Return a text of one line, cut in the middle where it is too long."""
    text = " ".join(str(text).split())
    return text if len(text) <= limit else f"{text[: (limit + 1) // 2 - 1]}…{text[-(limit // 2) :]}"


class Plot:
    """A drawing with two axes of numbers; what is added later lies above.

    x_axis, y_axis  lowest and highest value
    """

    def __init__(
        self,
        x_axis: tuple[float, float],
        y_axis: tuple[float, float],
        *,
        xlabel: str = "",
        ylabel: str = "",
        height: int = HEIGHT,
        left: int = 50,
        id_: str | None = None,
    ) -> None:
        self.x_axis, self.y_axis = x_axis, y_axis
        self.xlabel, self.ylabel = xlabel, ylabel
        self.left, self.right, self.top, self.bottom = left, WIDTH - 12, 24 if ylabel else 10, height - 40
        self.height, self.id = height, id_
        self.x_ticks: list[tuple[float, str]] = [(at, number_text(at)) for at in ticks(*x_axis)]
        self.y_ticks: list[tuple[float, str]] = [(at, number_text(at)) for at in ticks(*y_axis)]
        self.parts: list[Markup] = []

    def x(self, values: FloatArray | float) -> FloatArray:
        """Return where values of x are, in pixels."""
        low, high = self.x_axis
        share: FloatArray = (np.asarray(values, np.float64) - low) / ((high - low) or 1.0)
        return self.left + share * (self.right - self.left)

    def y(self, values: FloatArray | float) -> FloatArray:
        """Return where values of y are, in pixels."""
        low, high = self.y_axis
        share: FloatArray = (np.asarray(values, np.float64) - low) / ((high - low) or 1.0)
        return self.bottom - share * (self.bottom - self.top)

    def line(self, x: FloatArray, y: FloatArray, class_: str) -> None:
        """Draw a line; points that are no numbers are left out."""
        fine = np.isfinite(x) & np.isfinite(y)
        pairs = zip(self.x(x[fine]).tolist(), self.y(y[fine]).tolist(), strict=True)
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in pairs)
        if path:
            self.parts.append(el("path", d=f"M{path}", class_=f"line {class_}"))

    def band(self, x: FloatArray, low: FloatArray, high: FloatArray, class_: str) -> None:
        """Fill the room between two lines."""
        xs = np.concatenate([self.x(x), self.x(x)[::-1]]).tolist()
        ys = np.concatenate([self.y(low), self.y(high)[::-1]]).tolist()
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(xs, ys, strict=True))
        self.parts.append(el("path", d=f"M{path}Z", class_=f"band {class_}"))

    def dots(self, x: FloatArray, y: FloatArray, class_: str) -> None:
        """Draw points, all in one path: lines of no length with round ends."""
        fine = np.isfinite(x) & np.isfinite(y)
        pairs = zip(self.x(x[fine]).tolist(), self.y(y[fine]).tolist(), strict=True)
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in pairs)
        if path:
            self.parts.append(el("path", d=path, class_=f"dots {class_}"))

    def bars(self, edges: FloatArray, heights: FloatArray, class_: str, gap: float = 1.0) -> None:
        """Draw bars between edges, in one path."""
        xs, ys, zero = self.x(edges).tolist(), self.y(heights).tolist(), float(self.y(max(0.0, self.y_axis[0])))
        path = "".join(
            f"M{xs[i] + gap / 2:.1f} {zero:.1f}V{y:.1f}H{xs[i + 1] - gap / 2:.1f}V{zero:.1f}Z" for i, y in enumerate(ys)
        )
        self.parts.append(el("path", d=path, class_=f"fill {class_}"))

    def vertical(self, x: float, class_: str = "rule", text: str = "") -> None:
        """Draw a line across at one value of x."""
        at = float(self.x(x))
        self.parts.append(el("path", d=f"M{at:.1f} {self.top}V{self.bottom}", class_=class_))
        if text:
            side = "end" if at > (self.left + self.right) / 2 else "start"
            shift = -5 if side == "end" else 5
            self.parts.append(el("text", text, x=at + shift, y=self.top + 11, text_anchor=side, class_="small"))

    def horizontal(self, y: float, class_: str = "rule") -> None:
        """Draw a line along at one value of y."""
        at = float(self.y(y))
        self.parts.append(el("path", d=f"M{self.left} {at:.1f}H{self.right}", class_=class_))

    def marker(self, id_: str) -> None:
        """Add a point that the script moves."""
        self.parts.append(el("circle", id=id_, r=5, class_="marker", cx=-99, cy=-99))

    def svg(self, label: str) -> Markup:
        """Return the drawing; `label` says what it shows, for those who do not see it."""
        frame = ",".join(
            f"{value:.6g}" for value in (*self.x_axis, *self.y_axis, self.left, self.right, self.top, self.bottom)
        )
        return el(
            "svg", self._axes(), self.parts, viewBox=f"0 0 {WIDTH} {self.height}", role="img", aria_label=label,
            id=self.id, data_frame=frame, class_="chart",
        )  # fmt: skip

    def _axes(self) -> Markup:
        drawn: list[Markup] = []
        for at, text in self.y_ticks:
            y = float(self.y(at))
            drawn.append(el("path", d=f"M{self.left} {y:.1f}H{self.right}", class_="grid"))
            drawn.append(el("text", text, x=self.left - 6, y=y + 4, text_anchor="end", class_="tick"))
        for at, text in self.x_ticks:
            x = float(self.x(at))
            drawn.append(el("path", d=f"M{x:.1f} {self.bottom}v4", class_="axis"))
            drawn.append(el("text", text, x=x, y=self.bottom + 17, text_anchor="middle", class_="tick"))
        drawn.append(el("path", d=f"M{self.left} {self.bottom}H{self.right}", class_="axis"))
        middle = (self.left + self.right) / 2
        drawn.append(el("text", self.xlabel, x=middle, y=self.height - 6, text_anchor="middle", class_="label"))
        drawn.append(el("text", self.ylabel, x=4, y=14, class_="label"))
        return joined(drawn)


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Return the key of a drawing: (class, text) of every line."""
    return el("div", [el("span", el("i", class_=class_), text) for class_, text in entries], class_="legend")


def bar_list(names: Sequence[str], values: FloatArray, class_: str, left: int = 150) -> Markup:
    """Return bars of values, one below the other, with names before and numbers behind them."""
    row, right = 22, 64
    span = max(float(np.max(np.abs(values), initial=0.0)), 1e-300)
    room = WIDTH - left - right
    drawn: list[Markup] = []
    for place, (name, value) in enumerate(zip(names, values.tolist(), strict=True)):
        y, long = place * row, max(value, 0.0) / span * room
        text = number_text(value, 3)
        drawn.append(
            el(
                "g",
                el("title", f"{name}: {text}"),
                el("text", short(name, int(left / 7.4)), x=left - 8, y=y + 15, text_anchor="end", class_="name"),
                el("rect", x=left, y=y + 4, width=max(long, 1.0), height=row - 8, rx=2, class_=f"fill {class_}"),
                el("text", text, x=left + long + 6, y=y + 15, class_="tick"),
            )
        )
    return el("svg", drawn, viewBox=f"0 0 {WIDTH} {max(len(drawn), 1) * row}", role="img", class_="chart")


def sparkline(heights: FloatArray, class_: str = "d0", other: FloatArray | None = None) -> Markup:
    """Return a small histogram, 96 by 24 pixels; `other` is drawn as a line above it."""
    top = max(float(heights.max(initial=0.0)), 0.0 if other is None else float(other.max(initial=0.0)), 1e-300)
    step = 96.0 / max(len(heights), 1)
    path = "".join(
        f"M{i * step:.1f} 24v{-value / top * 23:.1f}h{step - 0.6:.1f}V24Z" for i, value in enumerate(heights.tolist())
    )
    drawn = [el("path", d=path, class_=f"fill {class_}")]
    if other is not None and len(other):
        points = "L".join(f"{(i + 0.5) * step:.1f} {24 - v / top * 23:.1f}" for i, v in enumerate(other.tolist()))
        drawn.append(el("path", d=f"M{points}", class_="line s1 thin"))
    return el("svg", drawn, viewBox="0 0 96 24", class_="spark", aria_hidden="true")


def heat_map(names: Sequence[str], shares: FloatArray, texts: Sequence[Sequence[str]], what: tuple[str, str]) -> Markup:
    """Return a square table coloured by shares from 0 to 1.

    shares  float64 (n, n)  in   rows are `what[0]`, columns `what[1]`
    """
    n = len(names)
    left, top = 92, 26
    side = max((WIDTH - left - 4) / n, 1.0)
    drawn: list[Markup] = [
        el("text", what[1], x=left, y=12, class_="label"),
        el("text", what[0], x=0, y=12, class_="label"),
    ]
    for i in range(n):
        y = top + i * side
        drawn.append(el("text", short(names[i], 13), x=left - 6, y=y + side / 2 + 4, text_anchor="end", class_="tick"))
        for j in range(n):
            share = float(shares[i, j])
            x = left + j * side
            drawn.append(
                el(
                    "g",
                    el("title", f"{names[i]} → {names[j]}: {texts[i][j]}"),
                    el("rect", x=x, y=y, width=side - 1, height=side - 1, rx=2, class_=f"heat h{round(share * 10)}"),
                    el(
                        "text",
                        texts[i][j],
                        x=x + side / 2,
                        y=y + side / 2 + 4,
                        text_anchor="middle",
                        class_="cell on" if share > 0.55 else "cell",
                    )
                    if n <= 10
                    else None,
                )
            )
    bottom = top + n * side
    if n <= 10:
        drawn += [
            el("text", short(names[j], max(int(side / CHARACTER), 3)), x=left + (j + 0.5) * side, y=bottom + 14,
               text_anchor="middle", class_="tick")
            for j in range(n)
        ]  # fmt: skip
    return el("svg", drawn, viewBox=f"0 0 {WIDTH} {bottom + 22:.0f}", role="img", class_="chart")


def waterfall(steps: Sequence[tuple[str, str, float]], base: float) -> Markup:
    """Return how a score comes about from `base`: (name, text, amount) of every step, the largest first."""
    row, left = 22, 190
    ends = base + np.cumsum([amount for _, _, amount in reversed(steps)])
    low, high = limits(np.append(ends, base), room=0.02)
    room = WIDTH - left - 116

    def at(score: float) -> float:
        return left + 58 + (score - low) / (high - low) * room

    total = len(steps)
    drawn = [el("path", d=f"M{at(base):.1f} 0V{total * row}", class_="rule")]
    score = base
    for place, (name, text, amount) in enumerate(reversed(steps)):
        y = (total - 1 - place) * row
        begin, end = at(score), at(score + amount)
        shift, side = (5, "start") if amount >= 0 else (-5, "end")
        written = f"{amount:+.3g}" if abs(amount) >= 0.01 else f"{amount:+.1g}"
        drawn.append(
            el(
                "g",
                el("title", f"{name or text}: {amount:+.4g}"),
                el("text", short(text, 30), x=left - 6, y=y + 15, text_anchor="end", class_="name"),
                el(
                    "rect",
                    x=min(begin, end),
                    y=y + 4,
                    width=max(abs(end - begin), 1.0),
                    height=row - 8,
                    rx=2,
                    class_=f"fill {'d0' if amount >= 0 else 'd1'}",
                ),
                el("text", written, x=end + shift, y=y + 15, text_anchor=side, class_="tick over"),
            )
        )
        score += amount
    drawn.append(
        el("text", f"starts at {number_text(base)}", x=left - 6, y=total * row + 15, text_anchor="end", class_="tick")
    )
    drawn.append(
        el("text", f"score {number_text(score)}", x=WIDTH - 4, y=total * row + 15, text_anchor="end", class_="tick")
    )
    return el("svg", drawn, viewBox=f"0 0 {WIDTH} {total * row + 22}", role="img", class_="chart")
