"""The page: every table and figure of the paper, from the JSON file of a run."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from reproduction import figures, memory, tables
from reproduction.learners import DEPTH, DEVICES, LEAST_HESSIAN, LEAVES, LIBRARIES
from reproduction.printed import K15, K63, K255
from reproduction.sets import SETS
from reproduction.trainings import ITERATIONS, plan


def write(out: Path) -> list[str]:
    """Write paper.md and the figures into the folder of results.json; returns lines that say what was written."""
    held = json.loads((out / "results.json").read_text(encoding="utf-8"))
    lines = []
    try:
        drawn = figures.draw(held["steps"], out)
    except ImportError:
        drawn = []
        lines.append("matplotlib is not there: --draw draws the figures later, from results.json, on any machine")
    (out / "paper.md").write_text(text_of(held, drawn), encoding="utf-8")
    return [*lines, f"{out / 'paper.md'}: the page, with {len(drawn)} figures; {out / 'results.json'}: raw results"]


def text_of(held: dict[str, Any], drawn: list[str]) -> str:
    """Return the page as Markdown.

    held   what results.json has
    drawn  names of the figures that are there
    """
    steps, size = held["steps"], held["setting"]["rows"]

    def figure(name: str, title: str) -> str:
        return f"![{title}]({name}.svg)" if name in drawn else f"({title}: no figure; `--draw` draws it.)"

    return "\n\n".join([
        f"# The paper, measured: {title(held)}",
        introduction(held),
        "## Data sets (Table 1)", tables.statistics(steps),
        "## Hardware (Table 2)", tables.hardware(steps),
        "## GPU memory (Table 3)",
        "Rows of the paper's sizes. *Must be held*: counted, with the fewest histograms. *Peak*: measured, with bins "
        "by feature and all histograms that a tree may use.",
        tables.memory(steps),
        "## Metrics (Table 4)",
        "On rows that were not trained on. A number in brackets: iterations, where a training had no time for all "
        f"{ITERATIONS[size]}. Data that are made cannot give the paper's numbers; what counts is that algorithms and "
        "devices agree.",
        tables.metrics(steps),
        "## Training time (Figure 1)", figure("times", "Milliseconds of an iteration"), tables.times(steps),
        "The same by the time of all processors together, which a busy machine changes less:",
        tables.processor_times(steps),
        f"All {ITERATIONS[size]} iterations; ~: from the time of fewer. (The paper: 500.)", tables.whole_times(steps),
        "Speed-ups" + (", of the CPU by processor time, since the machine was busy:" if busy(steps) else ":"),
        tables.speed_ups(steps, bool(busy(steps))),
        "## What a tree spends its time on (Table 5)",
        "Shares of the stages of a tree; LightGBM's functions on the CPU in the paper, the same work here. On a GPU "
        "subtraction is part of the split search. On the CPU the tree is grown step by step for this table; the last "
        "line is an iteration as it is trained.",
        tables.profile(steps),
        "## Histogram bandwidth by depth (Figure 2)",
        "GB/s of feature data, a node of n / 2^D rows. " + bandwidth_note(steps),
        figure("bandwidth", "Histogram bandwidth by depth"), tables.bandwidth(steps),
        "## Convergence (Figure 3)", figure("convergence", "Convergence by iteration"),
        "## 15, 63 and 255 bins (Table 6, Figure 4)", figure("bins", "Time by number of bins"),
        tables.metrics(steps, [(method, device) for device in ("cpu", "gpu") for method in (K255, K63, K15)]),
        "## Fingerprints",
        "The first digits of the SHA-256 of our models; = where CPU and GPU have the same model, as they must.",
        tables.fingerprints(steps),
        "## What was not measured", missing(held),
        "Raw numbers, parameters and fingerprints of every step: `results.json`, beside this page.",
    ]) + "\n"  # fmt: skip


def title(held: dict[str, Any]) -> str:
    """Return the size and the machine in few words."""
    facts = held["steps"].get("hardware", {})
    cores, gpu = facts.get("cpu", {}).get("cores"), facts.get("gpu")
    size = "small data" if held["setting"]["rows"] == "small" else "the paper's sizes"
    return f"{size}, {gpu['name'] if gpu else 'no GPU'}" + (f", {cores} cores" if cores else "")


def introduction(held: dict[str, Any]) -> str:
    """Return what was run where."""
    size, facts = held["setting"]["rows"], held["steps"].get("hardware", {})
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    source = "real files where there were some" if held["setting"]["data"] else "data made in the shapes of its sets"
    commands = "\n".join(f"    {command}" for command in dict.fromkeys(held["commands"]))
    variables = " ".join(f"{name}={value}" for name, value in facts.get("environment", {}).items())
    return (
        "The tables and figures of Zhang, Si and Hsieh, *GPU-acceleration for Large-scale Tree Boosting* (2017), from "
        f"one command, with the paper's printed numbers beside ours. {facts.get('day', '')}, {source}, "
        f"{LEAVES[size]} leaves for Histogram, depth {DEPTH[size]} for Exact and Sketching, learning rate 0.1 "
        f"(Bosch 0.015), `min_sum_hessian_in_leaf` {LEAST_HESSIAN[size]:g}, {ITERATIONS[size]} iterations.\n\n"
        f"{commands}\n\nPython {facts.get('python', '')}, {facts.get('system', '')}; {versions}."
        + (f" Set besides: {variables}." if variables else "")
        + busy(held["steps"])
    )


def busy(steps: dict[str, Any]) -> str:
    """Say so where others used the processors too: times of the CPU are then no more than an impression."""
    cores = steps.get("hardware", {}).get("cpu", {}).get("cores")
    loads = [found["load"] for key, found in steps.items() if key.startswith("train/") and "load" in found]
    if not cores or not loads or statistics.median(loads) <= 1.5 * cores:
        return ""
    load = statistics.median(loads)
    return (
        f"\n\n**The machine was busy**: a load of {load:.0f} in the median, on {cores} cores. Times of the CPU "
        "are an impression; peers whose threads spin while they wait (OpenMP) suffer most."
    )


def bandwidth_note(steps: dict[str, Any]) -> str:
    """Say what the GPU kernels ran on."""
    found = [steps[key] for key in steps if key.startswith("bandwidth/gpu/") and "failed" not in steps[key]]
    if found and not found[0]["is_gpu"]:
        return "There is no GPU here: its kernels ran on the CPU, under PoCL, which shows that they run and no more."
    sizes = sorted({f"{one['rows']:,} x {one['features']}" for key, one in steps.items()
                    if key.startswith("bandwidth/") and "failed" not in one})  # fmt: skip
    return f"Here {' and '.join(sizes)}; the paper: 8,000,000 x 500." if sizes else ""


def missing(held: dict[str, Any]) -> str:
    """List what was skipped, failed or not begun: reasons, and numbers of steps by kind, library and device."""
    reasons: dict[str, list[str]] = {}
    for key, reason in held["skipped"].items():
        reasons.setdefault(reason, []).append(key)
    for key, found in held["steps"].items():
        if "failed" in found:
            reasons.setdefault(f"failed: {found['failed']}", []).append(key)
    known = held["steps"].keys() | held["skipped"].keys()
    for key in planned():
        if key not in known:
            reasons.setdefault("not begun by these commands", []).append(key)
    lines = []
    for reason, keys in reasons.items():
        kinds = Counter(" ".join(key.split("/")[:1] + key.split("/")[2:-1]) for key in keys)
        lines.append(f"- {reason}: " + ", ".join(f"{kind} ({n})" for kind, n in kinds.items()))
    return "\n".join(lines) or "Nothing: every step was done."


def planned() -> list[str]:
    """Return the steps of all trainings and all measurements of memory."""
    trainings = plan(list(SETS), list(LIBRARIES), list(DEVICES))
    amounts = memory.plan(list(SETS))
    return [
        *(f"train/{one}/{library}/{device}/{method}" for one, device, library, method in trainings),
        *(f"memory/{one}/{method}" for one, method in amounts),
    ]
