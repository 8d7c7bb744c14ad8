"""What a script written for LightGBM relies on: parameters that a training tells, and what callbacks may do."""

import numpy as np
import pytest

import hornbeam as hb

lightgbm = pytest.importorskip("lightgbm")

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(300, 4))
Y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * RANDOM.normal(size=300)
LABEL = (Y > 0).astype(float)
BOTH = (lightgbm, hb)


def plain(library, **params):
    """Return parameters for either library; the device is one that only ours knows."""
    own = {"device": "reference"} if library is hb else {"num_threads": 1}
    return {"num_leaves": 5, "verbosity": -1, **own, **params}


def test_a_booster_shows_the_parameters_that_it_was_given():
    found = []
    for library in BOTH:
        params = {"objective": "binary", "metric": "auc", "learning_rate": 0.2}
        for booster in (
            library.train(plain(library, **params), library.Dataset(X, LABEL), 2),
            library.Booster(plain(library, **params), library.Dataset(X, LABEL)),
        ):
            shown = {name: value for name, value in booster.params.items() if name not in ("device", "num_threads")}
            found.append((shown, [name in booster.params for name in ("metric", "learning_rate", "max_bin")]))
    assert found[:2] == found[2:]


@pytest.mark.parametrize("params", [{}, {"n_estimators": 3}])
def test_callbacks_see_the_number_of_iterations_that_were_asked_for(params):
    found = []
    for library in BOTH:
        seen = []
        library.train(
            plain(library, **params), library.Dataset(X, Y), 2,
            callbacks=[lambda env, seen=seen: seen.append(env.params["num_iterations"])],
        )  # fmt: skip
        found.append(seen)
    assert found[0] == found[1]
    seen = []
    train_set = hb.Dataset(X, Y)
    hb.cv(plain(hb), train_set, 2, nfold=2, callbacks=[lambda env: seen.append(env.params["num_iterations"])])
    assert seen == [2, 2]
