"""A Series where a table is expected: what LightGBM or XGBoost can predict of it is predicted as they do."""

import numpy as np
import pytest

import hornbeam as hb

pd = pytest.importorskip("pandas")

QUIET = {"verbosity": -1}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    made["n"] = rng.integers(0, 9, 300)
    return made


@pytest.fixture(scope="module")
def label(frame):
    return frame["a"].to_numpy() + frame["n"].to_numpy() / 4


def test_a_row_of_a_frame_is_predicted_as_lightgbm_does(frame, label):
    lgb = pytest.importorskip("lightgbm")
    params = {"verbose": -1, "num_leaves": 5, "learning_rate": 0.5}
    theirs = lgb.train(params, lgb.Dataset(frame, label), 3)
    ours = hb.train({**params, **QUIET}, hb.Dataset(frame, label), 3)
    for number in range(5):
        row = frame.iloc[number]
        assert ours.predict(row).tolist() == ours.predict(frame.iloc[[number]]).tolist()
        assert ours.predict(row) == pytest.approx(theirs.predict(row), rel=1e-5)
    assert ours.predict(row, pred_contrib=True).shape == (1, 5)
    assert ours.predict(pd.Series(row.to_numpy())).tolist() == ours.predict(row).tolist()  # values without names


def test_a_column_is_predicted_by_a_model_of_one_feature_as_xgboost_does(frame, label):
    xgb = pytest.importorskip("xgboost")
    params, column = {"max_depth": 2, "verbosity": 0}, frame["a"]
    theirs = xgb.train(params, xgb.DMatrix(column, label), 3)
    ours = hb.train(params, hb.DMatrix(column, label), 3)
    assert ours.feature_names == theirs.feature_names == ["a"]
    expected = ours.predict(frame[["a"]])
    assert np.array_equal(ours.inplace_predict(column), expected)
    assert np.array_equal(ours.predict(column.rename(None)), expected)
    assert np.array_equal(ours.predict(hb.DMatrix(column)), expected)
    for found in (theirs.inplace_predict(column), theirs.predict(xgb.DMatrix(column))):
        assert found.shape == (300,)
        assert np.corrcoef(expected, found)[0, 1] > 0.95


def test_xgboosts_estimators_take_a_column_too(frame, label):
    xgb = pytest.importorskip("xgboost")
    column = frame["a"]
    for module in (hb, xgb):
        model = module.XGBRegressor(n_estimators=3, verbosity=0).fit(frame[["a"]], label)
        assert np.array_equal(model.predict(column), model.predict(frame[["a"]]))
    assert np.array_equal(
        hb.XGBRegressor(n_estimators=3, verbosity=0).fit(frame[["a"]].to_numpy(), label).predict(column.rename(None)),
        hb.XGBRegressor(n_estimators=3, verbosity=0)
        .fit(frame[["a"]].to_numpy(), label)
        .predict(frame[["a"]].to_numpy()),
    )
    classifier = hb.XGBClassifier(n_estimators=3, verbosity=0).fit(frame[["a"]], label > 0)
    assert classifier.predict_proba(column).shape == (300, 2)
    wide = hb.XGBRegressor(n_estimators=3, verbosity=0).fit(frame, label)
    with pytest.raises(ValueError, match="single row"):
        wide.predict(frame.iloc[0])


def test_a_series_of_polars_is_one_too(frame, label):
    pl = pytest.importorskip("polars")
    one = hb.train(QUIET, hb.Dataset(frame[["a"]], label), 3)
    assert np.array_equal(one.predict(pl.Series(frame["a"].to_numpy())), one.predict(frame[["a"]]))
    several = hb.train(QUIET, hb.Dataset(frame, label), 3)
    assert several.predict(pl.Series(frame.iloc[7].to_numpy())).tolist() == several.predict(frame.iloc[[7]]).tolist()


def test_a_row_of_categories_keeps_its_levels(frame, label):
    table = frame.assign(city=pd.Categorical(np.array(["x", "y", "z"])[frame["n"] % 3]), number=frame["n"] > 4)
    table.loc[3, "city"] = None
    model = hb.train(QUIET, hb.Dataset(table, label + (table["city"] == "x")), 3)
    for number in range(6):
        assert model.predict(table.iloc[number]).tolist() == model.predict(table.iloc[[number]]).tolist()


def test_others_say_what_to_pass(frame, label):
    model = hb.train(QUIET, hb.Dataset(frame, label), 2)
    with pytest.raises(hb.DataError, match=r"Series of 300 values, and the model has 4 features; .*df\.iloc\[\[0\]\]"):
        model.predict(frame["a"])
    with pytest.raises(hb.DataError, match="feature 0 of data is 'n', but the model was trained on 'a'"):
        model.predict(frame.iloc[0][::-1])
    assert model.predict(frame.iloc[0][::-1], validate_features=False).shape == (1,)
    with pytest.raises(hb.DataError, match=r"data is a Series; pass a table: df\[\['a'\]\]"):
        hb.Dataset(frame["a"], label)
    estimator = hb.HornbeamRegressor(n_estimators=2, **QUIET).fit(frame, label)
    for series in (frame.iloc[0], frame["a"]):
        with pytest.raises(ValueError, match="single row"):
            estimator.predict(series)
