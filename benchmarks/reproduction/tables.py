"""The tables of the page, as Markdown, from the steps of a journal. A cell without a result is empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reproduction import printed
from reproduction.bandwidth import BINS
from reproduction.learners import LIBRARIES, METHODS
from reproduction.printed import EXACT, K15, K63, K255, SKETCHING
from reproduction.profiles import GRADIENTS, HISTOGRAMS, LEAVES, PARTITION, PROFILED, SEARCH
from reproduction.sets import SETS
from reproduction.trainings import key_of

Steps = Mapping[str, Mapping[str, Any]]

COLUMNS = [(method, device) for method in (K255, K63, K15, EXACT, SKETCHING) for device in ("cpu", "gpu")]
"""(method, device) of the tables of metrics and times."""

STAGES = {
    "BeforeFindBestSplit()": (GRADIENTS, "leaves, scores, gradients, rounding"),
    "ConstructHistogram()": (HISTOGRAMS, "histograms"),
    "FindBestThreshold()": (SEARCH, "split search, subtraction"),
    "Split()": (PARTITION, "partition"),
}
"""Stages of ours on CPU and GPU that do what a function of LightGBM does."""

OTHER_STAGES = (LEAVES, "choosing the nodes of a round", "planning, zeroing")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table, numbers to the right."""
    head, body = list(head), [list(row) for row in rows]
    rule = ["---"] + ["--:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body])


def column_title(method: str, device: str) -> str:
    """Return "k = 255, CPU" and its like."""
    return f"{METHODS[method].title.removeprefix('Histogram, ')}, {device.upper()}"


def result(steps: Steps, one: str, library: str, device: str, method: str) -> Mapping[str, Any] | None:
    """Return the result of a training that was done and did not fail."""
    found = steps.get(key_of(one, library, device, method))
    return None if found is None or "failed" in found else found


def measured(steps: Steps) -> list[tuple[str, str]]:
    """Return the columns that have a result of any set and library."""
    return [
        (method, device)
        for method, device in COLUMNS
        if any(result(steps, one, library, device, method) for one in SETS for library in LIBRARIES)
    ]


def shown(steps: Steps) -> list[tuple[str, str]]:
    """Return the columns that have a result, or a number in the paper."""
    found = measured(steps)
    printed_too = {column for values in printed.METRICS.values() for column in values}
    return [column for column in COLUMNS if column in found or column in printed_too]


def statistics(steps: Steps) -> str:
    rows = []
    for one in SETS.values():
        facts = steps.get(f"data/{one.key}")
        here = ["", "", "", "", "", ""]
        if facts is not None and "failed" not in facts:
            here = [
                f"{facts['rows']:,} x {facts['features']:,}", f"{facts['test_rows']:,}",
                "" if facts["queries"] is None else f"{facts['queries']:,}", f"{facts['zeros']:.0%}",
                f"{facts['missing']:.0%}", facts["source"],
            ]  # fmt: skip
        rows.append([one.title, f"{one.n_rows:,} x {one.n_features:,}", *here])
    return table(["", "paper: rows x features", "here", "test rows", "queries", "zeros", "missing", "data"], rows)


def hardware(steps: Steps) -> str:
    rows = [[f"paper: {name}", flops, memory, bandwidth] for name, flops, memory, bandwidth in printed.HARDWARE]
    facts = steps.get("hardware")
    if facts is not None and "failed" not in facts:
        cpu, gpu = facts["cpu"], facts["gpu"]
        rows.append([
            f"here: {cpu['name']}, {cpu['cores']} core(s)", "", f"{cpu['memory_bytes'] / 2**30:.0f} GB",
            f"{cpu['bandwidth'] / 1e9:.0f} GB/s (copying, measured)",
        ])  # fmt: skip
        if gpu is None:
            rows.append(["here: no GPU", "", "", ""])
        else:
            rows.append([
                f"here: {gpu['name']}", f"{gpu['flops'] / 1e9:,.0f} GFLOPS" if gpu["flops"] else "",
                f"{gpu['memory_bytes'] / 2**30:.0f} GB" if gpu["memory_bytes"] else "",
                f"{gpu['bandwidth'] / 1e9:,.0f} GB/s" if gpu["bandwidth"] else "",
            ])  # fmt: skip
    return table(["hardware", "peak FLOPS", "memory", "bandwidth"], rows)


def memory(steps: Steps) -> str:
    def cells(method: str, name: str) -> list[str]:
        found = [steps.get(f"memory/{one}/{method}", {}) for one in SETS]
        return [f"{each[name]:,.0f}" if each.get(name) else "failed" if "failed" in each else "" for each in found]

    rows = [
        ["paper: Histogram", *(str(printed.MEMORY[one][0]) for one in SETS)],
        ["paper: Exact", *(str(printed.MEMORY[one][1]) for one in SETS)],
    ]
    for name, what in (("counted", "must be held"), ("peak", "peak measured without limits")):
        for method in (K63, K255, K15, EXACT):
            found = cells(method, name)
            if any(found) or (method == EXACT and name == "peak"):
                rows.append([f"here: {METHODS[method].title}, {what}", *found])
    return table(["MB", *(one.title for one in SETS.values())], rows)


def number(value: float | str | None, digits: int) -> str:
    """Return a number with so many digits after the point, or a word as it is."""
    return "" if value is None else value if isinstance(value, str) else f"{value:.{digits}f}"


def metrics(steps: Steps, columns: list[tuple[str, str]] | None = None) -> str:
    columns = shown(steps) if columns is None else columns
    rows = []
    for one in SETS.values():
        for metric in one.metrics:
            paper = printed.METRICS[one.key, metric]
            rows.append([f"{one.title} {metric.upper()}", "paper", *(number(paper.get(c), 6) for c in columns)])
            for library, title in LIBRARIES.items():
                cells = []
                for method, device in columns:
                    found = result(steps, one.key, library, device, method)
                    cut = "" if found is None or found["iterations"] == found["target"] else f" ({found['iterations']})"
                    cells.append("" if found is None else f"{found['metrics'][metric]:.6f}{cut}")
                if any(cells):
                    rows.append(["", title, *cells])
    return table(["", "", *(column_title(*c) for c in columns)], rows)


def milliseconds(value: float) -> str:
    """Return a time with three digits or so."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def times(steps: Steps, name: str = "iteration_ms", columns: list[tuple[str, str]] | None = None) -> str:
    columns = measured(steps) if columns is None else columns
    rows = []
    for one in SETS.values():
        for library, title in LIBRARIES.items():
            found = [result(steps, one.key, library, device, method) for method, device in columns]
            if any(found):
                rows.append([
                    f"{one.title}, {title}", *("" if f is None else milliseconds(f[name]) for f in found),
                ])  # fmt: skip
    return table(["ms an iteration", *(column_title(*c) for c in columns)], rows)


def processor_times(steps: Steps) -> str:
    return times(steps, "processor_ms", [column for column in measured(steps) if column[1] == "cpu"])


def whole_times(steps: Steps) -> str:
    columns = [
        column for column in COLUMNS
        if column in measured(steps) or any(column == key[1:] for key in printed.SECONDS)
    ]  # fmt: skip
    rows = []
    for one in SETS.values():
        named = [printed.SECONDS.get((one.key, method, device), "") for method, device in columns]
        if any(named):
            rows.append([f"{one.title}, paper", *named])
        for library, title in LIBRARIES.items():
            found = [result(steps, one.key, library, device, method) for method, device in columns]
            if any(found):
                cells = []
                for f in found:
                    about = "" if f is None or f["iterations"] == f["target"] else "~"
                    cells.append("" if f is None else about + milliseconds(f["all_s"]))
                rows.append([f"{one.title}, {title}", *cells])
    return table(["seconds", *(column_title(*c) for c in columns)], rows)


COMPARED = (
    ("Hornbeam k = 63 GPU against k = 255 CPU", ("hornbeam", "gpu", K63), ("hornbeam", "cpu", K255)),
    ("Hornbeam k = 63 GPU against LightGBM k = 255 CPU", ("hornbeam", "gpu", K63), ("lightgbm", "cpu", K255)),
    ("Hornbeam k = 63 GPU against XGBoost Exact CPU", ("hornbeam", "gpu", K63), ("xgboost", "cpu", EXACT)),
    ("k = 255 GPU: LightGBM (the paper's code)", ("hornbeam", "gpu", K255), ("lightgbm", "gpu", K255)),
    ("k = 255 GPU: XGBoost", ("hornbeam", "gpu", K255), ("xgboost", "gpu", K255)),
    ("Sketching GPU: XGBoost", ("hornbeam", "gpu", SKETCHING), ("xgboost", "gpu", SKETCHING)),
    ("Exact GPU against XGBoost Exact CPU", ("hornbeam", "gpu", EXACT), ("xgboost", "cpu", EXACT)),
    ("k = 255 CPU: LightGBM", ("hornbeam", "cpu", K255), ("lightgbm", "cpu", K255)),
    ("k = 255 CPU: XGBoost", ("hornbeam", "cpu", K255), ("xgboost", "cpu", K255)),
    ("Exact CPU: XGBoost", ("hornbeam", "cpu", EXACT), ("xgboost", "cpu", EXACT)),
    ("Sketching CPU: XGBoost", ("hornbeam", "cpu", SKETCHING), ("xgboost", "cpu", SKETCHING)),
)
"""Speed-ups: title, what is faster, what it is compared with."""


def speed_ups(steps: Steps, by_processor: bool) -> str:
    """Return ratios of times on the clock; by_processor: of processor times where both are of the CPU."""
    rows = [["paper: GTX 1080, 63 bins, against 28 cores", *(printed.SPEED_UPS.get(one, "") for one in SETS)]]
    for title, ours, theirs in COMPARED:
        cells = []
        for one in SETS:
            fast, slow = (result(steps, one, *column) for column in (ours, theirs))
            name = "processor_ms" if by_processor and ours[1] == theirs[1] == "cpu" else "iteration_ms"
            known = fast is not None and slow is not None and fast[name] > 0
            ratio = slow[name] / fast[name] if known and slow and fast else None
            cells.append("" if ratio is None else f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2g}")
        if any(cells):
            rows.append([title, *cells])
    return table(["times as fast", *(one.title for one in SETS.values())], rows)


def profile(steps: Steps) -> str:
    devices = ("cpu", "gpu")
    head = [""]
    for one in PROFILED:
        head += [f"{SETS[one].title}: paper", *(f"ours, {device.upper()}" for device in devices)]

    def share(one: str, device: str, names: tuple[str, ...]) -> str:
        found = steps.get(f"profile/{one}/{device}")
        if found is None or "failed" in found:
            return ""
        spent = sum(found["stages"].get(name, 0.0) for name in set(names))
        return f"{spent / max(sum(found['stages'].values()), 1e-12):.1%}"

    rows = []
    for function, names in STAGES.items():
        row = [f"{function}; {names[0]}"]
        for one in PROFILED:
            row += [printed.PROFILE[function][one], *(share(one, device, names) for device in devices)]
        rows.append(row)
    other = ["others: leaves, scores, choosing nodes"]
    whole = ["ms an iteration"]
    for one in PROFILED:
        other += ["", *(share(one, device, OTHER_STAGES) for device in devices)]
        found = [steps.get(f"profile/{one}/{device}") for device in devices]
        whole += ["", *("" if f is None or "failed" in f else milliseconds(f["iteration_ms"]) for f in found)]
    return table(head, [*rows, other, whole])


def bandwidth(steps: Steps) -> str:
    lanes: list[tuple[str, dict[int, float]]] = []
    for bins, name in BINS.items():
        for device in ("cpu", "gpu"):
            found = steps.get(f"bandwidth/{device}/{bins}")
            if found is None or "failed" in found:
                continue
            where = "CPU" if device == "cpu" else "GPU" if found["is_gpu"] else "PoCL"
            lanes.append((f"{name}: ours, {where}", {point[0]: point[2] for point in found["points"]}))
            if device == "gpu":
                lanes.append((f"{name}: paper's kernel, {where}", {point[0]: point[3] for point in found["points"]}))
    depths = sorted({depth for _, lane in lanes for depth in lane})
    return table(
        ["D", *(title for title, _ in lanes)],
        [[str(depth), *(f"{lane[depth]:.3g}" if depth in lane else "" for _, lane in lanes)] for depth in depths],
    )


def fingerprints(steps: Steps) -> str:
    rows = []
    for one in SETS.values():
        row = [one.title]
        for method in METHODS:
            found = [result(steps, one.key, "hornbeam", device, method) for device in ("cpu", "gpu")]
            prints = [f["fingerprint"] for f in found if f is not None]
            same_length = len({f["iterations"] for f in found if f is not None}) == 1
            equal = "" if len(prints) < 2 or not same_length else " =" if prints[0] == prints[1] else " DIFFER"
            row.append(f"`{prints[0][:12]}`{equal}" if prints else "")
        rows.append(row)
    return table(["", *(method.title for method in METHODS.values())], rows)
