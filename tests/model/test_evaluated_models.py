"""What a model of XGBoost's ways says when it was read, pickled or handed on: its metric, and its best iteration."""

import pickle

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.data import make_targets

xgboost = pytest.importorskip("xgboost")

X = make_targets(300)[0]

EVALUATED = {
    "quantile": ({"objective": "reg:quantileerror", "quantile_alpha": 0.3}, "numbers"),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.6]}, "numbers"),
    "tweedie": ({"objective": "reg:tweedie", "tweedie_variance_power": 1.2}, "numbers"),
    "mphe": ({"objective": "reg:pseudohubererror", "huber_slope": 0.3}, "numbers"),
    "rmse": ({}, "numbers"),
    "gamma": ({"objective": "reg:gamma"}, "numbers"),
    "lists": ({"objective": "rank:ndcg"}, "grades"),
    "short lists": ({"objective": "rank:ndcg", "lambdarank_num_pair_per_sample": 4}, "grades"),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, "grades"),
}


@pytest.mark.parametrize("case", EVALUATED)
def test_a_model_is_evaluated_as_its_training_was_in_files_and_pickles_too(case, tmp_path):
    """By the parameters of the objective, and by XGBoost's metric of it, which a file does not name."""
    given, label = EVALUATED[case]
    target = {"numbers": np.exp(X[:, 0]) + 5, "grades": np.digitize(X[:, 0], [-0.5, 0.5])}[label]
    names = []
    for library in (hb, xgboost):
        query = {"qid": np.arange(len(X)) // 20} if label == "grades" and "lists" in case else {}
        data, history = library.DMatrix(X, target, **query), {}
        model = library.train(
            {**given, "max_depth": 2, "nthread": 1},
            data,
            2,
            evals=[(data, "eval")],
            evals_result=history,
            verbose_eval=False,
        )
        model.save_model(tmp_path / "model.json")
        loaded = library.Booster()
        loaded.load_model(tmp_path / "model.json")
        ((metric, values),) = history["eval"].items()
        names.append(metric)
        for made in (
            model,
            loaded,
            library.Booster(model_file=tmp_path / "model.json"),
            pickle.loads(pickle.dumps(model)),
        ):
            name, value = made.eval(data).removeprefix("[0]\teval-").split(":")
            assert name == metric and float(value) == pytest.approx(values[-1], rel=1e-12)
        theirs = hb.Booster(model_file=tmp_path / "model.json")  # of XGBoost's own files, too
        assert theirs.eval(hb.DMatrix(X, target, **query)).startswith(
            f"[0]\teval-{'ndcg@32' if 'lists' in case and library is not hb else metric}:"
        )
    assert names[0] == names[1]


@pytest.mark.parametrize("kind", ["json", "ubj"])
@pytest.mark.parametrize("peer", [hb, xgboost])
def test_the_best_iteration_of_a_file_is_counted_as_by_xgboost(kind, peer, tmp_path):
    """In files of Boosters and of estimators, of either library."""
    path = tmp_path / f"model.{kind}"
    label = (X[:, 0] > 0).astype(int)
    label[::5] = 1 - label[::5]
    train, valid = peer.DMatrix(X[:200], label[:200]), peer.DMatrix(X[200:], label[200:])
    params = {"objective": "binary:logistic", "eta": 0.2, "nthread": 1}
    model = peer.train(params, train, 60, evals=[(valid, "v")], early_stopping_rounds=4, verbose_eval=False)
    estimator = peer.XGBClassifier(learning_rate=0.2, early_stopping_rounds=4, n_jobs=1)
    estimator.fit(X[:200], label[:200], eval_set=[(X[200:], label[200:])], verbose=False)
    for saved in (model, estimator):
        saved.save_model(path)
        read = hb.Booster(model_file=path)
        assert 0 < saved.best_iteration == read.best_iteration == int(read.attr("best_iteration"))
        assert read.best_iteration == hb.Booster(model_file=bytearray(path.read_bytes())).best_iteration
        assert len(read.predict(X, pred_leaf=True)[0]) == read.n_iterations  # all trees, as XGBoost's Booster
    assert hb.Booster(model_file=read).best_iteration == read.best_iteration
