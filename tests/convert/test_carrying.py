"""`save_model` of what was trained on a DMatrix: XGBoost reads the file, and Hornbeam gets the model back as it was."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hornbeam as hb

xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
NAMES = ["a", "größe\n", 'c"']
LABELS = {"binary:logistic": X[:, 0] > 0, "reg:squarederror": X[:, 0], "multi:softprob": np.digitize(X[:, 1], [-1, 1])}


def trained(objective="binary:logistic", **others):
    params = {"objective": objective, "max_depth": 3, "nthread": 1, **others}
    if objective.startswith("multi"):
        params["num_class"] = 3
    data = hb.DMatrix(X, LABELS[objective], feature_names=NAMES)
    valid = hb.DMatrix(X[:50], LABELS[objective][:50], feature_names=NAMES)
    rounds = {"num_boost_round": 6, "evals": [(valid, "valid")], "early_stopping_rounds": 2, "verbose_eval": False}
    return hb.train(params, data, **rounds)


@pytest.mark.parametrize("kind", ["json", "ubj"])
@pytest.mark.parametrize("objective", list(LABELS))
def test_xgboost_reads_what_save_model_writes_and_hornbeam_reads_the_same_model(tmp_path, kind, objective):
    booster = trained(objective)
    booster.set_attr(note="mine")
    path = tmp_path / f"model.{kind}"
    booster.save_model(path)
    theirs = xgboost.Booster(model_file=path)
    found = theirs.predict(xgboost.DMatrix(X, feature_names=NAMES))
    np.testing.assert_allclose(found, booster.predict(hb.DMatrix(X, feature_names=NAMES)), rtol=1e-5, atol=1e-6)
    assert theirs.attributes() == booster.attributes()
    again = hb.Booster()
    again.load_model(path)
    assert again.fingerprint() == booster.fingerprint()
    assert again.attributes() == booster.attributes()
    assert again.best_score == booster.best_score
    for source in (booster.save_raw(kind), bytes(path.read_bytes())):
        again.load_model(source)
        assert again.fingerprint() == booster.fingerprint()
    assert hb.load(path).fingerprint() == booster.fingerprint()


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_what_xgboost_saves_anew_is_read_as_its_own(kind):
    booster = trained()
    theirs = xgboost.Booster()
    theirs.load_model(booster.save_raw(kind))
    theirs.set_attr(note="theirs")
    again = hb.Booster()
    again.load_model(theirs.save_raw(kind))
    assert again.attr("note") == "theirs"
    np.testing.assert_allclose(again.predict(X), booster.predict(X), rtol=1e-5)


def test_a_file_that_was_edited_is_read_as_one_of_xgboost_with_a_warning(caplog):
    document = json.loads(trained().save_raw("json"))
    document["learner"]["gradient_booster"]["model"]["trees"][0]["split_conditions"][-1] += 1.0
    again = hb.Booster()
    again.load_model(json.dumps(document).encode())
    assert "edited after Hornbeam" in caplog.text
    assert again.predict(X).shape == (300,)
    del document["hornbeam"]["text"]
    with pytest.raises(hb.ModelFormatError, match="XGBoost model, hornbeam"):
        again.load_model(json.dumps(document).encode())


def test_a_model_that_xgboost_cannot_have_is_saved_for_hornbeam_with_a_line_in_the_log(tmp_path, caplog):
    words = np.array([f"word{i % 40}" for i in range(300)])
    frame = pytest.importorskip("pandas").DataFrame({"a": X[:, 0], "b": words}).astype({"b": "category"})
    data = hb.DMatrix(frame, X[:, 1], enable_categorical=True)
    booster = hb.train({"target_encoding_levels": 5, "nthread": 1}, data, 2)
    caplog.set_level("INFO", "hornbeam")
    booster.save_model(tmp_path / "model.json")
    assert "Hornbeam alone reads" in caplog.text
    assert hb.load(tmp_path / "model.json").fingerprint() == booster.fingerprint()


def test_raw_bytes_are_those_of_xgboosts_formats():
    booster = hb.train({"objective": "binary", "verbosity": -1}, hb.Dataset(X, LABELS["binary:logistic"]), 2)
    with pytest.raises(hb.ParameterError, match="'json' or 'ubj'"):
        booster.save_raw("deprecated")


def test_the_configuration_has_the_shape_and_the_values_of_xgboosts():
    params = {
        "objective": "binary:logistic", "max_depth": 3, "eta": 0.25, "gamma": 0.5, "lambda": 2, "subsample": 0.5,
        "colsample_bytree": 0.5, "min_child_weight": 3, "eval_metric": ["auc", "logloss"], "nthread": 1,
    }  # fmt: skip
    found = {}
    for name, library in (("ours", hb), ("theirs", xgboost)):
        model = library.train(params, library.DMatrix(X, LABELS["binary:logistic"]), 2)
        found[name] = json.loads(model.save_config())["learner"]
    ours, theirs = found["ours"], found["theirs"]
    assert ours["objective"]["name"] == theirs["objective"]["name"]
    assert ours["metrics"] == theirs["metrics"]
    assert ours["learner_train_param"] == theirs["learner_train_param"]
    assert set(ours["generic_param"]) <= set(theirs["generic_param"])
    values, expected = (one["learner_model_param"] for one in (ours, theirs))
    starts = [float(one.pop("base_score").strip("[]")) for one in (values, expected)]
    assert starts[0] == pytest.approx(starts[1], abs=1e-6)
    assert values == expected
    shared = ours["gradient_booster"]["tree_train_param"]
    whole = theirs["gradient_booster"]["tree_train_param"]
    assert shared == {name: whole[name] for name in shared}
