"""What XGBoost's users ask of a trained Booster: its attributes, parameters, tables, and shapes of its predictions."""

import json
import pickle

import numpy as np
import pytest

import hornbeam as xgb
from hornbeam.testing.data import make_targets

X, _, Y, _ = make_targets(300)


@pytest.fixture
def dtrain():
    return xgb.DMatrix(X, label=Y)


@pytest.fixture
def booster(dtrain):
    return xgb.train({"objective": "binary:logistic", "max_depth": 2}, dtrain, 4)


def test_attributes_are_texts_that_pickles_and_copies_carry(booster):
    booster.set_attr(author="me", version="3")
    booster.set_attr(version=None)
    assert booster.attributes() == {"author": "me"}
    assert pickle.loads(pickle.dumps(booster)).attr("author") == booster.copy().attr("author") == "me"
    assert booster.attr("version") is None
    with pytest.raises(xgb.ParameterError, match="pass str"):
        booster.set_attr(version=3)


def test_set_param_sets_threads_and_parameters_of_a_training_under_way(booster, dtrain):
    booster.set_param({"nthread": 1, "verbosity": 0})
    assert booster.num_threads == 1
    live, other = xgb.Booster({"eta": 0.1}, [dtrain]), xgb.Booster({"eta": 0.5}, [dtrain])
    live.set_param("eta", 0.5)
    live.update(dtrain, 0)
    other.update(dtrain, 0)
    assert np.array_equal(live.predict(dtrain), other.predict(dtrain))


def test_a_model_without_a_training_goes_on_with_its_parameters_on_the_data_it_is_given(booster, dtrain, tmp_path):
    params = {"objective": "binary:logistic", "max_depth": 2}
    whole = xgb.train(params, dtrain, 6).fingerprint()
    booster.save_model(tmp_path / "model.json")
    read = xgb.Booster()
    read.load_model(tmp_path / "model.json")
    read.set_attr(author="me")
    for one in (booster, read, pickle.loads(pickle.dumps(booster))):
        for iteration in (4, 5):
            one.update(dtrain, iteration)
        assert one.fingerprint() == whole
    assert read.attr("author") == "me"
    chance = booster.predict(dtrain)
    read.boost(dtrain, 6, chance - Y, chance * (1 - chance))
    booster.update(dtrain, 6)
    assert np.allclose(read.predict(dtrain, output_margin=True), booster.predict(dtrain, output_margin=True), atol=1e-6)
    with pytest.raises(xgb.ParameterError, match="pass them, update"):
        read.copy().update()


def test_parameters_that_are_set_count_in_the_iterations_to_come(booster, dtrain):
    params = {"objective": "binary:logistic", "max_depth": 2}
    booster.set_param({"eta": 0.01, "max_depth": 4, "subsample": 0.5})
    booster.update(dtrain, 4)
    later = {**params, "eta": 0.01, "max_depth": 4, "subsample": 0.5}
    expected = xgb.train(later, dtrain, 1, xgb_model=xgb.train(params, dtrain, 4))
    assert booster.fingerprint() == expected.fingerprint()
    assert booster.trees[-1].n_leaves > 4


def test_a_model_of_xgboosts_goes_on_with_its_defaults(dtrain, tmp_path):
    peer = pytest.importorskip("xgboost")
    own, data = tmp_path / "peer.json", peer.DMatrix(X, label=Y)
    peer.train({"objective": "binary:logistic", "eta": 0.1, "max_depth": 2}, data, 4).save_model(own)
    ours, theirs = xgb.Booster(), peer.Booster()
    for one, table in ((ours, dtrain), (theirs, data)):
        one.load_model(own)
        one.set_param({"max_depth": 3})
        one.update(table, 4)
    assert np.abs(ours.predict(dtrain) - theirs.predict(data)).mean() < 0.01
    assert ours.trees[-1].shrinkage == 0.3
    assert 4 < ours.trees[-1].n_leaves <= 8


def test_load_config_takes_that_of_the_model_alone(booster, dtrain):
    booster.load_config(booster.save_config())
    other = booster.copy()
    other.set_param("nthread", 2)
    booster.load_config(other.save_config())
    assert booster.num_threads == 2
    booster.set_param("nthread", 1)
    with pytest.raises(xgb.ParameterError, match="no text that save_config returned"):
        booster.load_config("{}")
    with pytest.raises(xgb.ParameterError, match="another model"):
        booster.load_config(xgb.train({"eta": 0.7}, dtrain, 1).save_config())


def test_features_without_names_are_f0_and_a_file_gives_them_others(booster, tmp_path):
    assert set(booster.get_score()) <= {"f0", "f1", "f2", "f3"}
    assert "[f0<" in booster.get_dump()[0]
    path = tmp_path / "fmap.txt"
    path.write_text("0 age q\n1 size q\n")
    assert "age" in booster.get_score(fmap=str(path))
    booster.dump_model(tmp_path / "dump.txt", str(path))
    assert "[age<" in (tmp_path / "dump.txt").read_text()
    path.write_text("no names\n")
    with pytest.raises(xgb.ParameterError, match="number name type"):
        booster.get_fscore(str(path))


def test_tables_of_a_model_of_a_dmatrix_are_xgboosts(booster):
    table = booster.trees_to_dataframe()
    columns = ["Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing", "Gain", "Cover", "Category"]
    assert list(table.columns) == columns
    root = json.loads(booster.get_dump(dump_format="json", with_stats=True)[1])
    first = table[table.Tree == 1].iloc[0]
    assert (first.ID, first.Split, first.Yes, first.Gain) == ("1-0", root["split_condition"], "1-1", root["gain"])
    leaves = table[table.Feature == "Leaf"]
    assert leaves.Yes.isna().all()
    assert len(leaves) == sum(tree.n_leaves for tree in booster.trees)
    assert list(booster.get_split_value_histogram(0).columns) == ["SplitValue", "Count"]
    assert isinstance(booster.get_split_value_histogram(0, as_pandas=False), np.ndarray)
    counts, edges = xgb.train({}, xgb.Dataset(X, Y), 2).get_split_value_histogram(0)
    assert len(edges) == len(counts) + 1


def test_inplace_predict_takes_xgboosts_arguments_by_place(booster):
    expected = booster.predict(X, num_iteration=2, raw_score=True)
    assert np.array_equal(booster.inplace_predict(X, (0, 2), "margin", np.nan), expected)


def test_shapes_are_xgboosts_where_they_are_asked_for():
    peer = pytest.importorskip("xgboost")
    frame, classes = X.astype(np.float32), np.digitize(X[:, 0], [-0.5, 0.5])
    cases = [({"objective": "binary:logistic"}, Y), ({"objective": "multi:softprob", "num_class": 3}, classes)]
    cases.append(({"objective": "reg:squarederror", "num_parallel_tree": 2}, X[:, 1]))
    asked = [{}, {"pred_contribs": True}, {"pred_interactions": True}, {"pred_leaf": True}, {"output_margin": True}]
    for params, label in cases:
        ours = xgb.train(params, xgb.DMatrix(frame, label=label), 3)
        theirs = peer.train(params, peer.DMatrix(frame, label=label), 3)
        for choice in asked:
            for strict in (False, True):
                found = ours.predict(xgb.DMatrix(frame), **choice, strict_shape=strict)
                expected = theirs.predict(peer.DMatrix(frame), **choice, strict_shape=strict)
                assert found.shape == expected.shape, (params, choice, strict)


def test_leaves_of_a_strict_shape_are_by_iteration_output_and_parallel_tree():
    params = {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2, "colsample_bynode": 0.5}
    booster = xgb.train(params, xgb.DMatrix(X, label=np.digitize(X[:, 0], [-0.5, 0.5])), 2)
    leaves = booster.predict(X, pred_leaf=True, strict_shape=True)
    raw = np.tile(booster.init_scores, (len(X), 1))
    for iteration in range(2):
        for parallel in range(2):
            for output in range(3):
                tree = booster.trees[iteration * 6 + parallel * 3 + output]
                values = np.array([np.nan if node >= 0 else tree.leaf_value[~node] for node in tree.by_level()])
                raw[:, output] += values[leaves[:, iteration, output, parallel].astype(int)]
    assert np.allclose(raw, booster.predict(X, output_margin=True))


def test_a_booster_that_is_reset_predicts_and_goes_on(dtrain):
    params = {"objective": "binary:logistic", "max_depth": 2, "eval_metric": "auc"}
    live, expected = xgb.Booster(params, [dtrain]), xgb.train(params, dtrain, 4)
    for place in range(2):
        live.update(dtrain, place)
    before = live.predict(dtrain)
    assert live.reset() is live and live.train_set is None
    assert np.array_equal(live.predict(dtrain), before) and "auc" in live.eval(dtrain)
    for place in range(2, 4):
        live.update(dtrain, place)
    assert live.fingerprint() == expected.fingerprint()
