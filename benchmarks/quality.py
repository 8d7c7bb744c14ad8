"""Prediction quality beside LightGBM, XGBoost and CatBoost: the same parameters, the same rows, the same metric code.

    python benchmarks/quality.py DATASETS_FOLDER [--only adult casp] [--rounds N] [--leaves N] [--high] [--markdown]
    python benchmarks/quality.py DATASETS_FOLDER --only lambdarank --rounds 50 --shuffles 20 --objectives all
    python benchmarks/quality.py DATASETS_FOLDER --only diamonds california casp --objectives regression_l1 gamma
    python benchmarks/quality.py DATASETS_FOLDER --tree-method exact --depth 6
    python benchmarks/quality.py DATASETS_FOLDER --save parts.jsonl [...]    # again and again, until the table is whole

The folder holds one sub-folder a data set, with the files that the loaders in quality_data.py name; it has no default,
since the data are not part of the project. Category columns are coded by the order of their names, for all libraries
alike; the sets named `..._categories` say that these codes are categories, the others do not.

`worse by` is how much worse Hornbeam is than the best of the peers, in percent of the peer's metric; negative means
better. The best peer is the one with the best mean, so chance favours the peers. `+-` is the standard error of that
figure over the folds: what a change of rows alone does to it.

Parameters are equal in what they do: a peer's are translated so that its steps are as long as ours where its hessians
are a multiple of ours (hornbeam.testing.peers). The peers `...-same-numbers` have the same numbers instead, and
`catboost-yetirank` is CatBoost with the loss that its users rank with, `catboost-newton` with a Newton step a leaf for
`logcosh`; `-` is where a peer has no such objective.

Bounds of bins that fall a little otherwise change the figures of a small set as much as other rows do; with several
numbers of bins (--bins 255 251 247 243) a fold's figure is the mean over them.

With --save every figure is kept, one JSON line a fold and library, and what is kept already is not run again: a table
may be run in parts, interrupted, or given another peer. The file knows nothing of versions: begin a new one when a
library changes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from libraries import CatBoost, Data, Library, LightGBM, XGBoost, by_depth
from numpy.typing import NDArray
from quality_data import LOADERS, OTHERS, Problem, Split
from quality_metrics import HIGHER_IS_BETTER, measure

import hornbeam as hb
from hornbeam.objectives import ALL_OBJECTIVES, RANKING
from hornbeam.testing.peers import derivative_factors, has_objective


def parameters(problem: Problem, options: argparse.Namespace, max_bin: int) -> dict[str, Any]:
    """Return parameters that the libraries honour alike.

    XGBoost knows no number of rows in a leaf, so classification limits the sum of hessians instead, which CatBoost does
    not know; for the squared error that sum is the number of rows. CatBoost splits no leaf of fewer rows than
    `min_data_in_leaf`, but its leaves may then have fewer: only `--min-data 1` is the same for all of them.
    """
    params: dict[str, Any] = {
        "objective": problem.objective,
        "num_leaves": options.leaves,
        "learning_rate": options.learning_rate,
        "lambda_l2": 1.0,
        "max_delta_step": 0.0,
        "max_bin": max_bin,
        "num_threads": options.threads,
        "verbosity": -1,
        "metric": "none",
    }
    if options.tree_method != "hist":
        params = by_depth(params, options.tree_method, options.depth)
    labels = "ranks" if problem.objective in RANKING else ALL_OBJECTIVES[problem.objective].labels
    if labels == "classes":
        params["num_class"] = problem.n_classes
    if labels in ("real", "positive", "nonnegative"):
        return params | {"min_data_in_leaf": options.min_data}
    return params | {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0}


class XGBoostSameNumbers(XGBoost):
    """XGBoost with our numbers: other steps where its hessians are a multiple of ours."""

    same_numbers = True


class CatBoostSameNumbers(CatBoost):
    """CatBoost with our numbers."""

    same_numbers = True


class YetiRank(CatBoost):
    """CatBoost with the loss that its users rank with, whatever the ranking objective is."""

    def translate(self, params: dict[str, Any]) -> dict[str, Any]:
        return super().translate(params | {"objective": "lambdarank"}) | {"loss_function": "YetiRank"}


class CatBoostNewton(CatBoost):
    """CatBoost with a Newton step a leaf for logcosh, whose minimum it takes by default: longer steps, far away."""

    def translate(self, params: dict[str, Any]) -> dict[str, Any]:
        return super().translate(params) | {"leaf_estimation_method": "Newton"}


PEERS: dict[str, type[Library]] = {
    "lightgbm": LightGBM,
    "xgboost": XGBoost,
    "xgboost-same-numbers": XGBoostSameNumbers,
    "catboost": CatBoost,
    "catboost-same-numbers": CatBoostSameNumbers,
    "catboost-yetirank": YetiRank,
    "catboost-newton": CatBoostNewton,
}
USUAL_PEERS = ("lightgbm", "xgboost", "catboost")


def takes_part(name: str, params: dict[str, Any]) -> bool:
    """Whether a library has the objective, and is not the same as another one in the table."""
    if name.startswith("hornbeam"):
        return True
    peer: Any = name.partition("-")[0]
    if name == "catboost-yetirank":
        return params["objective"] in RANKING
    if name == "catboost-newton":
        return bool(params["objective"] == "logcosh")
    if name.endswith("-same-numbers") and derivative_factors(params, peer) == (1.0, 1.0):
        return False
    return has_objective(peer, params["objective"])


def worse_by(metric: str, ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> tuple[float, float]:
    """Return in percent how much worse we are than a peer, and the standard error over the folds.

    ours, theirs  float64 (n_folds,)  in  the metric
    """
    sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
    each = sign * (ours - theirs) / theirs.mean() * 100.0
    error = float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan
    return float(each.mean()), error


@dataclass
class Line:
    """One line of the table: a data set and a metric."""

    problem: Problem
    metric: str
    values: dict[str, NDArray[np.float64]]

    def best_peer(self) -> str:
        sign = -1.0 if self.metric in HIGHER_IS_BETTER else 1.0
        peers = [name for name, values in self.values.items() if name in PEERS and len(values)]
        return min(peers, key=lambda peer: sign * float(self.values[peer].mean()))

    def difference(self) -> tuple[float, float]:
        return worse_by(self.metric, self.values["hornbeam"], self.values[self.best_peer()])

    def cells(self) -> list[str]:
        n_train = len(self.problem.splits[0][0])
        size = f"{n_train:,} x {self.problem.X.shape[1]}"
        means = [f"{float(values.mean()):.5g}" if len(values) else "-" for values in self.values.values()]
        percent, error = self.difference()
        shown = "" if math.isnan(error) else f" +- {error:.2f}"
        return [self.problem.name, size, self.problem.how, self.metric, *means, f"{percent:+.2f} %{shown}"]


class Saved:
    """Figures kept in a file, one JSON line a data set, split, library and setting; None: nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.figures: dict[tuple[Any, ...], dict[str, float]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                *key, figures = json.loads(line)
                self.figures[tuple(key)] = figures

    def keep(self, key: tuple[Any, ...], figures: dict[str, float]) -> None:
        """Add one."""
        self.figures[key] = figures
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([*key, figures]) + "\n")


def figures_of(problem: Problem, split: Split, library: Library, rounds: int) -> dict[str, float]:
    """Train a library on one split, and measure it."""
    train, test = split
    tested = test if problem.tested is None else test[problem.tested[test]]
    query = None if problem.query is None else problem.query[tested]
    sizes = None if problem.query is None else np.unique(problem.query[train], return_counts=True)[1]
    data = Data(problem.X[train], problem.y[train], sizes, problem.categorical)
    model = library.train(library.build(data), rounds)
    predicted = library.predict(model, problem.X[tested], data)
    return {metric: measure(metric, problem.y[tested], predicted, query) for metric in problem.metrics}


def run(problem: Problem, options: argparse.Namespace, saved: Saved) -> list[Line]:
    """Train and test all libraries on all splits of one problem; a split's figure is the mean over numbers of bins."""
    names = ["hornbeam", *(["hornbeam, high"] if options.high else []), *options.peers]
    values: dict[str, dict[str, list[float]]] = {m: {name: [] for name in names} for m in problem.metrics}
    if options.splits is not None and options.splits < len(problem.splits):
        problem.how += f", the first {options.splits}"
    if len(options.bins) > 1:
        problem.how += f" x {len(options.bins)} numbers of bins"
    for number, split in enumerate(problem.splits[: options.splits]):
        for name in names:
            if not takes_part(name, parameters(problem, options, options.bins[0])):
                continue
            found = []
            for max_bin in options.bins:
                params = parameters(problem, options, max_bin)
                if name == "hornbeam, high":
                    params["precision"] = "high"
                setting = (
                    options.rounds,
                    params["num_leaves"],
                    options.learning_rate,
                    max_bin,
                    params["min_data_in_leaf"],
                )
                if options.tree_method != "hist":
                    setting += (options.tree_method,)
                key = (problem.name, number, name, *setting)
                if key not in saved.figures:
                    library = PEERS.get(name, Library)(params)
                    saved.keep(key, figures_of(problem, split, library, options.rounds))
                found.append(saved.figures[key])
            for metric in problem.metrics:
                values[metric][name].append(float(np.mean([figures[metric] for figures in found])))
    return [Line(problem, m, {name: np.array(v) for name, v in values[m].items()}) for m in problem.metrics]


def show(rows: list[list[str]], markdown: bool) -> None:
    """Print a table, the first row as its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())
        if number == 0 and markdown:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def asked(problem: Problem, options: argparse.Namespace) -> list[Problem]:
    """Return a set under the objectives that are asked for, if its labels suit them."""
    if options.objectives is None:
        return [problem]
    suited = OTHERS[problem.objective]
    return [problem.under(name) for name in suited if name in options.objectives or "all" in options.objectives]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument("--only", nargs="+", choices=list(LOADERS), default=list(LOADERS), help="some of the data sets")
    installed = [name for name in USUAL_PEERS if importlib.util.find_spec(name) is not None]
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=installed)
    objectives = sorted({name for names in OTHERS.values() for name in names})
    parser.add_argument(
        "--objectives", nargs="+", choices=["all", *objectives], metavar="NAME",
        help="other objectives than a set's own, where its labels suit them; 'all': every such one",
    )  # fmt: skip
    parser.add_argument("--shuffles", type=int, help="how often rows are divided anew, or drawn; else by their number")
    parser.add_argument("--splits", type=int, help="no more than the first so many folds or draws of a set")
    parser.add_argument("--full", action="store_true", help="covertype: all rows, in folds")
    parser.add_argument("--high", action="store_true", help='also train with precision="high"')
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument(
        "--tree-method", choices=["hist", "exact", "approx"], default="hist", help="other than hist: beside XGBoost's"
    )
    parser.add_argument("--depth", type=int, default=6, help="of trees with another tree method than hist")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--bins", type=int, nargs="+", default=[255], help="the mean over several, for small sets")
    parser.add_argument("--min-data", type=int, default=1, help="rows in a leaf, regression")
    parser.add_argument("--markdown", action="store_true", help="print for docs/quality.md")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep every figure, and do not run what is kept")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder; give the folder that holds the data sets")

    if options.tree_method != "hist":
        options.peers = ["xgboost"]
    saved = Saved(options.save)
    lines: list[Line] = []
    for name in options.only:
        for loaded in LOADERS[name](options.folder, options):
            for problem in asked(loaded, options):
                begin = time.perf_counter()
                lines += run(problem, options, saved)
                took = time.perf_counter() - begin
                print(f"{problem.name}, {problem.how}: {took:.0f} s", file=sys.stderr, flush=True)
    bins = ", ".join(map(str, options.bins))
    shape = (
        f"{options.leaves} leaves" if options.tree_method == "hist" else f"{options.tree_method}, depth {options.depth}"
    )
    print(
        f"{options.rounds} rounds, {shape}, learning rate {options.learning_rate}, {bins} "
        "bins, lambda_l2 = 1.\nClassification and ranking: min_sum_hessian_in_leaf = 1, min_data_in_leaf = 1; "
        f"regression: min_data_in_leaf = {options.min_data}.\nEverything else at its default. "
        + ", ".join(
            [
                f"hornbeam {hb.__version__}",
                *(f"{name} {import_module(name.partition('-')[0]).__version__}" for name in options.peers),
            ]
        )
        + ".\n"
    )
    head = ["data", "training rows x features", "tested", "metric", *lines[0].values, "worse by"]
    show([head, *(line.cells() for line in lines)], options.markdown)
    # one data set, one voice: the mean over its lines, then over the sets
    sets: dict[str, list[float]] = {}
    for line in lines:
        sets.setdefault(line.problem.name, []).append(line.difference()[0])
    average = float(np.mean([np.mean(found) for found in sets.values()]))
    print(f"\nOn average over {len(sets)} data sets worse by {average:+.3f} % than the best peer.")


if __name__ == "__main__":
    main()
