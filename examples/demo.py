"""Train, evaluate, save and load: the main job on generated data, in one minute.

Run it with `make demo`, or `python examples/demo.py --rows 1000000 --device cpu`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import hornbeam as hb
from hornbeam.backends.costs import TrainingWork
from hornbeam.backends.devices import choose_device
from hornbeam.testing.data import make_higgs_like


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Return the share of (positive, negative) pairs in the right order; a tie counts one half."""
    values, group, counts = np.unique(score, return_inverse=True, return_counts=True)
    positives = np.bincount(group, weights=label, minlength=len(values))
    negatives = counts - positives
    below = np.cumsum(negatives) - negatives
    return float((positives * (below + 0.5 * negatives)).sum() / (positives.sum() * negatives.sum()))


def logloss(label: np.ndarray, probability: np.ndarray) -> float:
    p = np.clip(probability, 1e-15, 1.0 - 1e-15)
    return float(-np.mean(np.where(label > 0, np.log(p), np.log1p(-p))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=63)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="folder for model.json (default: a temporary one)")
    arguments = parser.parse_args()

    X, y = make_higgs_like(arguments.rows, n_features=28, seed=0)
    X_test, y_test = make_higgs_like(max(arguments.rows // 4, 1_000), n_features=28, seed=1)
    params = {
        "objective": "binary",
        "num_leaves": arguments.leaves,
        "learning_rate": 0.1,
        "device": arguments.device,
        "verbosity": 0,
    }
    print(f"data         {X.shape[0]:,} rows x {X.shape[1]} features, {len(y_test):,} held out")
    print(f"device       {choose_device(arguments.device, TrainingWork.of(*X.shape, hb.Params.from_dict(params)))}")

    # the first training of a process compiles the kernels (or reads them from the cache); keep that out of the clock
    start = time.perf_counter()
    hb.train(params, hb.Dataset(X, label=y), num_boost_round=1)
    print(f"warm-up      {time.perf_counter() - start:.1f} s (compiles on the first run only)")

    start = time.perf_counter()
    train = hb.Dataset(X, label=y).construct()
    print(f"binning      {time.perf_counter() - start:.2f} s")

    start = time.perf_counter()
    booster = hb.train(params, train, num_boost_round=arguments.rounds)
    seconds = time.perf_counter() - start
    print(f"training     {seconds:.2f} s, {1e3 * seconds / arguments.rounds:.1f} ms an iteration")

    probability = booster.predict(X_test)
    print(f"held out     AUC {auc(y_test, probability):.4f}, log loss {logloss(y_test, probability):.4f}")
    print(f"fingerprint  {booster.fingerprint()}")

    with tempfile.TemporaryDirectory() as temporary:
        path = (arguments.out or Path(temporary)) / "model.json"
        booster.save(path)
        loaded = hb.load(path)
        if not np.array_equal(loaded.predict(X_test), probability) or loaded.fingerprint() != booster.fingerprint():
            raise SystemExit("the loaded model differs from the saved one: this is a bug, please report it")
        print(f"saved        {path.stat().st_size:,} bytes; the loaded model predicts the same, bit for bit")


if __name__ == "__main__":
    main()
