"""One small model a task, with a report on each, written once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb

EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked=2'>"


@dataclass
class Case:
    """A model, its data, and its report."""

    booster: hb.Booster
    train: hb.Dataset
    valid: hb.Dataset
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


def table(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(45.0, 15.0, n_rows),
            EVIL: rng.lognormal(10.0, 1.0, n_rows),
            "city": pd.Categorical(rng.choice(["Paris", "Rome", EVIL], n_rows)),
            "visits": rng.poisson(3.0, n_rows),
        }
    )
    frame.loc[rng.uniform(size=n_rows) < 0.1, "age"] = np.nan
    return frame


@cache
def make(task: str, folder: Path) -> Case:
    X, V = table(600, 0), table(400, 1)
    V["visits"] += 2  # drift
    params = {
        "binary": {"objective": "binary", "metric": ["auc", "binary_logloss"]},
        "regression": {"objective": "regression"},
        "multiclass": {"objective": "multiclass", "num_class": 3},
        "ranking": {"objective": "lambdarank"},
    }[task]

    def dataset(frame: pd.DataFrame, seed: int, reference: hb.Dataset | None = None) -> hb.Dataset:
        score = (frame["age"].fillna(30.0) - 45.0) / 15.0 + 2.0 * (frame["city"] == "Rome")
        score = score.to_numpy() + np.random.default_rng(seed + 100).normal(size=len(frame))
        label = {"binary": score > 0.5, "regression": score}.get(task, np.digitize(score, [-0.5, 1.0]))
        group = np.full(len(frame) // 20, 20) if task == "ranking" else None
        return hb.Dataset(frame, label=label, group=group, reference=reference)

    train = dataset(X, 0)
    valid = dataset(V, 1, train)
    stop = [hb.early_stopping(5, verbose=False)] if task == "binary" else []
    params = {"num_leaves": 7, "verbosity": -1, **params}
    booster = hb.train(params, train, 15, valid_sets={"train": train, EVIL: valid}, callbacks=stop)
    path = folder / f"{task}.html"
    names = {"binary": ["no", EVIL], "multiclass": ["low", "middle", "high"]}.get(task)
    booster.report(
        path, valid, train=train, slices=["city", "age", "visits"], class_names=names, title=f"Case {task} {EVIL}",
        notes={EVIL: EVIL}, bootstrap=30,
    )  # fmt: skip
    return Case(booster, train, valid, path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="session", params=["binary", "regression", "multiclass", "ranking"])
def case(request: pytest.FixtureRequest, folder: Path) -> Case:
    return make(request.param, folder)


@pytest.fixture(scope="session")
def binary(folder: Path) -> Case:
    return make("binary", folder)
