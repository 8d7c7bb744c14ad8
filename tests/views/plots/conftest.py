"""Small models, trained once, and a matplotlib that opens no window."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import hornbeam as hb

mpl.use("Agg")

N_TRAIN, N_VALID = 600, 300


def table(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(45.0, 15.0, n_rows),
            "income $": rng.lognormal(10.0, 1.0, n_rows),
            "city": pd.Categorical(rng.choice(["Paris", "Rome", "Berlin"], n_rows)),
            "noise": rng.normal(size=n_rows),
        }
    )
    frame.loc[rng.uniform(size=n_rows) < 0.1, "age"] = np.nan
    return frame


def signal(frame: pd.DataFrame, seed: int) -> np.ndarray:
    plain = (
        (frame["age"].fillna(30.0) - 45.0) / 15.0 + np.log(frame["income $"]) - 10.0 + 2.0 * (frame["city"] == "Rome")
    )
    return plain.to_numpy() + np.random.default_rng(seed + 100).normal(size=len(frame))


@pytest.fixture(scope="session")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    return table(N_TRAIN, 0), table(N_VALID, 1)


@pytest.fixture(scope="session")
def binary(tables) -> tuple[hb.Booster, hb.Dataset]:
    train, valid = (hb.Dataset(X, label=signal(X, i) > 0.5) for i, X in enumerate(tables))
    params = {"objective": "binary", "num_leaves": 7, "metric": ["auc", "binary_logloss"], "verbosity": -1}
    sets = {"train": train, "valid": hb.Dataset(tables[1], label=valid.label, reference=train)}
    return hb.train(params, train, 20, valid_sets=sets, callbacks=[hb.early_stopping(5, verbose=False)]), valid


@pytest.fixture(scope="session")
def regression(tables) -> tuple[hb.Booster, hb.Dataset]:
    train, valid = (hb.Dataset(X, label=signal(X, i)) for i, X in enumerate(tables))
    return hb.train({"num_leaves": 7, "verbosity": -1}, train, 20), valid


@pytest.fixture(scope="session")
def classifier(tables) -> tuple[hb.HornbeamClassifier, pd.DataFrame, np.ndarray]:
    names = np.array(["bad", "fair", "good"])
    labels = [names[np.digitize(signal(X, i), [-0.5, 1.0])] for i, X in enumerate(tables)]
    model = hb.HornbeamClassifier(n_estimators=8, num_leaves=7, verbosity=-1)
    return model.fit(tables[0], labels[0], eval_set=[(tables[1], labels[1])]), tables[1], labels[1]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")
