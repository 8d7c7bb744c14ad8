"""What XGBoost's users tell and ask a DMatrix: types of features, ends of bins, formats of files."""

import numpy as np
import pytest

import hornbeam as xgb

rng = np.random.default_rng(0)


def test_types_of_features_are_those_given_or_of_a_frame(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"c": pd.Categorical(list("ab") * 50), "x": np.arange(100.0), "n": range(100), "b": [True] * 100}
    )
    dtrain = xgb.DMatrix(frame, label=np.arange(100), enable_categorical=True)
    assert dtrain.feature_types == ["c", "float", "int", "i"]
    booster = xgb.train({}, dtrain, 2)
    assert booster.feature_types == dtrain.feature_types == booster[:1].feature_types
    booster.save(tmp_path / "model.json")  # a file says what is categorical alone
    assert xgb.load(tmp_path / "model.json").feature_types == ["c", "float", "float", "float"]
    plain = xgb.DMatrix(np.column_stack((np.arange(100) % 3, np.arange(100))), label=np.arange(100))
    assert plain.feature_types is None
    plain.feature_types = ["c", "q"]
    assert xgb.train({}, plain, 2).feature_types == ["c", "q"]
    model = xgb.XGBRegressor(feature_types=["q", "c"], n_estimators=2).fit(np.arange(100).reshape(-1, 2), range(50))
    assert model.get_booster().feature_types == ["q", "c"]
    model = xgb.HornbeamRegressor(feature_types=["c", "q"], n_estimators=2).fit(plain.get_data(), np.arange(100))
    assert model.get_booster().feature_types == ["c", "float"]


def test_ends_of_bins_are_told_in_xgboosts_form():
    peer = pytest.importorskip("xgboost")
    table = np.column_stack([rng.integers(0, 5, 200), rng.normal(size=200), np.repeat(0.0, 200)]).astype(float)
    table[::9, 1] = np.nan
    for one in (xgb, peer):
        starts, values = one.QuantileDMatrix(table, np.ones(200), max_bin=16).get_quantile_cut()
        assert starts.dtype == np.uint64 and values.dtype == np.float32
        assert len(starts) == 4 and starts[-1] == len(values)
        assert starts[1] == 6  # a lower end, and an end for each of five values
        assert starts[2] - starts[1] in (16, 17)
        for feature in range(3):
            ends = values[int(starts[feature]) : int(starts[feature + 1])]
            found = table[:, feature][~np.isnan(table[:, feature])]
            assert (np.diff(ends) > 0.0).all()
            assert ends[0] < found.min() and found.max() <= ends[-1]
    dtrain = xgb.DMatrix(rng.normal(size=(300, 4)), label=np.ones(300))
    before = dtrain.get_quantile_cut()[1]
    xgb.train({"max_bin": 7}, dtrain, 1)
    after = dtrain.get_quantile_cut()
    assert len(after[1]) < len(before)
    assert (np.diff(after[0].astype(int)) == 8).all()


def test_paths_may_say_their_format(tmp_path):
    svm, csv = tmp_path / "data.svm", tmp_path / "data.csv"
    X, Y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    svm.write_text("".join(f"{y} 0:{row[0]} 1:{row[1]}\n" for row, y in zip(X, Y, strict=True)))
    np.savetxt(csv, np.column_stack((Y, X[:, :2])), delimiter=",")
    for path in (f"{svm}?format=libsvm", f"{csv}?format=csv&label_column=0"):
        data = xgb.DMatrix(path)
        assert (data.num_row(), data.num_col()) == (300, 2)
        assert np.array_equal(data.get_label(), Y)


def test_a_path_may_say_that_features_are_counted_from_one(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1 1:0.5 3:2\n0 2:1.5\n" * 20)
    data = xgb.DMatrix(f"{path}?indexing_mode=1&format=libsvm")
    assert data.num_row() == 40
    assert xgb.train({"objective": "binary:logistic"}, data, 2).predict(data).shape == (40,)
