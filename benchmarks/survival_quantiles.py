"""Survival models and lists of quantiles beside XGBoost's: time of a round and loss of other rows, in turns.

    python benchmarks/survival_quantiles.py                                   # 50,000 x 28, 2 threads, 5 seeds
    python benchmarks/survival_quantiles.py --device cuda --rows 1000000 --threads 16 --seeds 1

Both grow depth by depth to the same depth, from 256 bins, with the same rate and penalties, and start from the same
score. Times are those of vector_leaves.py: rounds one after the other, the first two left out, the median over seeds.
`worse by` is the mean over seeds of what Hornbeam's loss is above XGBoost's, in percent, +- its standard error: the
negative log likelihood of AFT, 1 - concordance of Cox, and the mean pinball loss of the quantiles.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from scipy.stats import norm
from vector_leaves import DEPTH, WARM, AfterRounds, print_setting

import hornbeam as hb
from hornbeam.metrics.survival import Concordance

ALPHAS = [0.1, 0.5, 0.9]
SAME = {"max_depth": DEPTH, "eta": 0.1, "lambda": 1.0, "min_child_weight": 1.0}
OF_KIND: dict[str, dict[str, Any]] = {
    "aft": {"objective": "survival:aft", "aft_loss_distribution": "normal", "aft_loss_distribution_scale": 1.2},
    "cox": {"objective": "survival:cox"},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": ALPHAS},
}
Fields = dict[str, NDArray[np.float64]]


def make_rows(kind: str, n_rows: int, n_features: int, seed: int) -> tuple[NDArray[np.float32], Fields]:
    """Return features, and labels or bounds; three in ten times are censored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    signal = X @ rng.normal(size=n_features) / np.sqrt(n_features) + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    if kind == "quantiles":
        return X, {"label": signal + (0.5 + np.abs(X[:, 3])) * rng.normal(size=n_rows)}
    times = np.exp(signal + rng.normal(size=n_rows))
    is_censored = rng.random(n_rows) < 0.3
    times = np.where(is_censored, times * rng.random(n_rows), times)
    if kind == "cox":
        return X, {"label": np.where(is_censored, -times, times)}
    return X, {"label_lower_bound": times, "label_upper_bound": np.where(is_censored, np.inf, times)}


def loss_of(kind: str, fields: Fields, scores: NDArray[np.float64]) -> float:
    """Return the loss of raw scores, for both libraries by the same formulas."""
    if kind == "quantiles":
        errors = fields["label"][:, None] - scores
        return float(np.mean(np.maximum(np.array(ALPHAS) * errors, (np.array(ALPHAS) - 1.0) * errors)))
    if kind == "cox":
        label = fields["label"]
        return 1.0 - Concordance().of_times(np.abs(label), label > 0.0, -scores)
    scale = OF_KIND["aft"]["aft_loss_distribution_scale"]
    low, is_censored = np.log(fields["label_lower_bound"]), np.isinf(fields["label_upper_bound"])
    z = (low - scores) / scale
    return float(-np.mean(np.where(is_censored, norm.logsf(z), norm.logpdf(z) - np.log(scale) - low)))


def matrix_of(kind: Any, X: NDArray[np.float32], fields: Fields) -> Any:
    """Return XGBoost's form of the same."""
    given = {name: values for name, values in fields.items() if name == "label"}
    matrix = kind(X, max_bin=256, **given) if kind is xgb.QuantileDMatrix else kind(X, **given)
    for name, values in fields.items():
        if name != "label":
            matrix.set_float_info(name, values)
    return matrix


def measure(kind: str, given: argparse.Namespace) -> str:
    """Train both in turns with every seed, and return a line of the table."""
    times: dict[str, list[float]] = {"hornbeam": [], "xgboost": []}
    worse = []
    for seed in range(given.seeds + 1):
        X, fields = make_rows(kind, given.rows + given.tested, given.features, max(seed - 1, 0))
        train, test = slice(given.rows), slice(given.rows, None)
        of_train, of_test = ({name: values[part] for name, values in fields.items()} for part in (train, test))
        ours = {**SAME, **OF_KIND[kind], "num_threads": given.threads, "device": given.device, "verbosity": -1}
        ours |= {"grow_policy": "depthwise", "num_leaves": 2**DEPTH, "min_data_in_leaf": 1}
        theirs = {**SAME, **OF_KIND[kind], "tree_method": "hist", "nthread": given.threads, "device": given.device}
        our_data, their_data = hb.Dataset(X[train], **of_train), matrix_of(xgb.QuantileDMatrix, X[train], of_train)
        clock: dict[str, list[float]] = {"hornbeam": [], "xgboost": []}
        booster = hb.train(
            ours,
            our_data,
            WARM + given.rounds,
            callbacks=[lambda _: clock["hornbeam"].append(time.perf_counter())],  # noqa: B023
        )
        if kind == "aft":
            theirs["base_score"] = float(np.exp(booster.init_scores[0]))
        peer = xgb.train(
            theirs, their_data, WARM + given.rounds,
            callbacks=[AfterRounds(lambda: clock["xgboost"].append(time.perf_counter()))],  # noqa: B023
        )  # fmt: skip
        if seed == 0:  # which compiles
            continue
        for library, taken in clock.items():
            times[library].append(1e3 * (taken[-1] - taken[WARM - 1]) / given.rounds)
        raw = peer.predict(matrix_of(xgb.DMatrix, X[test], of_test), output_margin=True).astype(np.float64)
        own = loss_of(kind, of_test, booster.predict(X[test], raw_score=True))
        worse.append(100.0 * (own / loss_of(kind, of_test, raw) - 1.0))
    a, b = (statistics.median(times[library]) for library in ("hornbeam", "xgboost"))
    error = np.std(worse) / np.sqrt(max(1, len(worse) - 1))
    return f"{kind:10s} {a:11.2f} {b:11.2f} {b / a:6.2f} {np.mean(worse):+8.3f} +- {error:.3f}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--tested", type=int, default=50_000, help="rows that losses are of")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=list(OF_KIND), default=list(OF_KIND))
    given = parser.parse_args()
    print_setting(given)
    print("kind       hornbeam ms  xgboost ms  ratio  worse by, %")
    for kind in given.kinds:
        print(measure(kind, given), flush=True)


if __name__ == "__main__":
    main()
