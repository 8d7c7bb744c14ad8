"""Callbacks see the whole model, whenever they look at it first: its trees are made late where nobody looks."""

from __future__ import annotations

import pytest

import hornbeam as hb
from hornbeam.testing.data import make_higgs_like

X, Y = make_higgs_like(300, 6)
N_ROUNDS = 5


def params(device):
    return {"objective": "binary", "num_leaves": 6, "device": device, "verbosity": -1}


class Looker:
    """Looks at the model from one iteration on, and keeps it."""

    def __init__(self, first: int, before_iteration: bool) -> None:
        self.first, self.before_iteration, self.kept, self.seen = first, before_iteration, None, {}

    def __call__(self, env):
        if env.iteration == self.first:
            self.kept = env.model
        if self.kept is not None:
            self.seen[env.iteration] = self.kept.fingerprint()


@pytest.mark.parametrize("before_iteration", [False, True])
@pytest.mark.parametrize("first", [0, 2, N_ROUNDS - 1])
def test_a_callback_sees_all_trees_whenever_it_looks_first(device, first, before_iteration):
    looker = Looker(first, before_iteration)
    final = hb.train(params(device), hb.Dataset(X, label=Y), N_ROUNDS, callbacks=[looker])
    assert sorted(looker.seen) == list(range(first, N_ROUNDS))
    for iteration, seen in looker.seen.items():
        assert seen == final[: iteration + (not before_iteration)].fingerprint()
    assert final.fingerprint() == hb.train(params("reference"), hb.Dataset(X, label=Y), N_ROUNDS).fingerprint()


def test_a_callback_of_cv_sees_the_models_of_all_folds(device):
    seen = []
    hb.cv(
        params(device), hb.Dataset(X, label=Y), N_ROUNDS, nfold=3,
        callbacks=[lambda env: env.iteration < 3 or seen.append([one.n_iterations for one in env.model.boosters])],
    )  # fmt: skip
    assert seen == [[4] * 3, [5] * 3]
