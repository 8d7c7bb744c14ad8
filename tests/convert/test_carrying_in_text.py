"""`save_model` of what was trained on a Dataset: LightGBM reads the file, and Hornbeam has the model as it was."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(c=pd.Categorical(RNG.choice(["u", "v", "w"], 400)))
Y = (np.nan_to_num(X[:, 0]) + RNG.normal(size=400) > 0.0).astype(float)
PARAMS = {"objective": "binary", "num_leaves": 7, "verbosity": -1}


def trained(data=X, rounds=8, **others):
    train = hb.Dataset(data, label=Y)
    valid = hb.Dataset(data[::3], label=Y[::3], reference=train)
    return hb.train({**PARAMS, **others}, train, rounds, [valid], callbacks=[hb.early_stopping(3, verbose=False)])


@pytest.mark.parametrize("data", [X, FRAME], ids=["array", "frame"])
def test_lightgbm_reads_what_save_model_writes_and_hornbeam_reads_the_same_model(tmp_path, data):
    booster = trained(data)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    for theirs in (lightgbm.Booster(model_file=path), lightgbm.Booster(model_str=booster.model_to_string())):
        np.testing.assert_allclose(theirs.predict(data), booster.predict(data), rtol=1e-12)
    assert theirs.pandas_categorical == (None if data is X else booster.pandas_categorical)
    for again in (hb.Booster(model_file=path), hb.load(path), hb.Booster(model_str=booster.model_to_string())):
        assert again.fingerprint() == booster.fingerprint()
        assert again.best_iteration == booster.best_iteration
        assert again.predict(data).tobytes() == booster.predict(data).tobytes()


def test_some_iterations_are_saved_as_a_model_of_their_own(tmp_path):
    booster = trained()
    booster.save_model(tmp_path / "part.txt", num_iteration=3, start_iteration=1)
    own, theirs = hb.load(tmp_path / "part.txt"), lightgbm.Booster(model_file=tmp_path / "part.txt")
    assert [tree.leaf_value.tolist() for tree in own.trees] == [tree.leaf_value.tolist() for tree in booster.trees[1:4]]
    assert theirs.num_trees() == 3
    expected = booster.predict(X, raw_score=True, start_iteration=1, num_iteration=3)
    np.testing.assert_array_equal(own.predict(X, raw_score=True), expected)
    np.testing.assert_allclose(theirs.predict(X, raw_score=True), expected, rtol=0, atol=1e-12)


def test_what_lightgbm_saves_anew_is_read_as_its_own(tmp_path):
    booster = trained()
    lightgbm.Booster(model_str=booster.model_to_string()).save_model(tmp_path / "theirs.txt")
    again = hb.load(tmp_path / "theirs.txt")
    np.testing.assert_allclose(again.predict(X), booster.predict(X), rtol=1e-12)


def test_a_file_that_was_edited_is_read_as_one_of_lightgbm_with_a_warning(caplog):
    text = trained().model_to_string()
    edited = hb.Booster(model_str=text.replace("shrinkage=0.1", "shrinkage=0.2", 1))
    assert "edited after Hornbeam" in caplog.text
    np.testing.assert_allclose(edited.predict(X), trained().predict(X), rtol=1e-12)
    with pytest.raises(hb.ModelFormatError, match="LightGBM model, hornbeam"):
        hb.Booster(model_str=text.replace('"sha256"', '"sha"'))


def test_a_model_that_lightgbm_cannot_have_is_saved_for_hornbeam_with_a_line_in_the_log(tmp_path, caplog):
    words = np.array([f"word{i % 40}" for i in range(400)])
    frame = pd.DataFrame({"a": X[:, 0], "b": words}).astype({"b": "category"})
    booster = hb.train({**PARAMS, "target_encoding_levels": 5, "verbosity": 1}, hb.Dataset(frame, label=Y), 2)
    with caplog.at_level("INFO", logger="hornbeam"):
        booster.save_model(tmp_path / "model.txt")
    assert "Hornbeam alone reads the file" in caplog.text
    assert hb.load(tmp_path / "model.txt").fingerprint() == booster.fingerprint()
