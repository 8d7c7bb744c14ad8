"""skops: Boosters and estimators come back with the same fingerprint, and no type but ours is to be trusted."""

from __future__ import annotations

import pickle
import sys
import zipfile

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hornbeam as hb
from hornbeam.companions.packages import MissingPackageError
from hornbeam.companions.skops import TRUSTED, load
from hornbeam.testing.data import make_higgs_like

X, Y = make_higgs_like(300, 6)
SMALL = {"n_estimators": 3, "num_leaves": 7, "verbosity": -1}


@pytest.fixture
def sio():
    """skops.io, which takes seconds to import: where its tests run alone."""
    return pytest.importorskip("skops.io", reason="skops is not installed")


def test_a_booster_comes_back_and_is_the_only_type_to_trust(tmp_path, sio):
    booster = hb.train({"objective": "binary", "num_leaves": 7, "verbosity": -1}, hb.Dataset(X, label=Y), 3)
    sio.dump(booster, tmp_path / "model.skops")
    assert sio.get_untrusted_types(file=tmp_path / "model.skops") == ["hornbeam.model.booster.Booster"]
    assert load(tmp_path / "model.skops").fingerprint() == booster.fingerprint()


def test_the_listed_types_are_those_of_the_estimators():
    kinds = [f"{peer}{kind}" for peer in ("Hornbeam", "LGBM", "XGB") for kind in ("Classifier", "Regressor", "Ranker")]
    kinds += ["XGBRFClassifier", "XGBRFRegressor", "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"]
    classes = [getattr(hb, name) for name in ("Booster", *kinds)]
    assert set(TRUSTED) == {f"{one.__module__}.{one.__qualname__}" for one in classes}


@pytest.mark.parametrize(
    "kind", ["HornbeamClassifier", "HornbeamRegressor", "HornbeamRanker", "LGBMClassifier", "XGBRegressor"]
)
def test_estimators_come_back_without_a_list(kind, tmp_path, sio):
    model = getattr(hb, kind)(**SMALL)
    model.fit(X, Y, group=[100, 200]) if kind == "HornbeamRanker" else model.fit(X, Y)
    sio.dump(model, tmp_path / "model.skops")
    back = load(tmp_path / "model.skops")
    assert set(sio.get_untrusted_types(file=tmp_path / "model.skops")) <= set(TRUSTED)
    assert back.get_params() == model.get_params()
    assert back.booster_.fingerprint() == model.booster_.fingerprint()
    assert back.predict(X).tobytes() == model.predict(X).tobytes()


def test_categories_and_a_pipeline_come_back(tmp_path, sio):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(X[:, 1] > 0, "high", "low"))})
    model = hb.HornbeamClassifier(**SMALL).fit(frame, np.where(Y > 0, "yes", "no"))
    pipeline = make_pipeline(StandardScaler(), hb.HornbeamClassifier(**SMALL)).fit(X, Y)
    for name, fitted, data in (("model", model, frame), ("pipeline", pipeline, X)):
        sio.dump(fitted, tmp_path / name)
        assert np.array_equal(load(tmp_path / name).predict(data), fitted.predict(data))


def test_a_file_whose_model_was_changed_is_refused(tmp_path, sio):
    booster = hb.train({"num_leaves": 7, "verbosity": -1}, hb.Dataset(X, label=Y), 2)
    sio.dump(booster, tmp_path / "model.skops")
    with zipfile.ZipFile(tmp_path / "model.skops") as old, zipfile.ZipFile(tmp_path / "bad.skops", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'"left"', b'"lost"', 1))
    with pytest.raises(hb.ModelFormatError):
        load(tmp_path / "bad.skops")


def test_an_objective_function_must_be_named_by_the_user(tmp_path, sio):
    model = hb.HornbeamRegressor(objective=squared_error, **SMALL).fit(X, Y)
    sio.dump(model, tmp_path / "model.skops")
    with pytest.raises(Exception, match="squared_error"):
        load(tmp_path / "model.skops")
    unknown = set(sio.get_untrusted_types(file=tmp_path / "model.skops")) - set(TRUSTED)
    assert {name.rpartition(".")[2] for name in unknown} == {"squared_error"}


def squared_error(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_pred)


def test_pickle_keeps_what_a_model_file_does_not():
    valid = {"v": hb.Dataset(X, label=Y)}
    booster = hb.train({"num_leaves": 7, "verbosity": -1}, hb.Dataset(X, label=Y), 2, valid)
    back = pickle.loads(pickle.dumps(booster))
    assert (back.fingerprint(), back.eval_history) == (booster.fingerprint(), booster.eval_history)


def test_without_skops_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hornbeam\[companions\]'"):
        load("model.skops")
