"""Plots: what is drawn, by which arguments, and what is refused."""

from __future__ import annotations

import inspect
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.inspection import partial_dependence

import hornbeam as hb
from hornbeam.views.plots.dependence import dependence
from hornbeam.views.plots.explanations import swarm, waterfall_steps
from hornbeam.views.plots.seen import SeeingModel, choose_rows, number_text

LIGHTGBM = ("plot_importance", "plot_metric", "plot_split_value_histogram", "plot_tree", "create_tree_digraph")


@pytest.mark.parametrize("name", LIGHTGBM)
def test_arguments_are_those_of_lightgbm_in_name_order_and_default(name):
    peer = inspect.signature(getattr(pytest.importorskip("lightgbm"), name)).parameters
    own = inspect.signature(getattr(hb, name)).parameters
    assert [(p, own[p].default, own[p].kind) for p in peer] == [(p.name, p.default, p.kind) for p in peer.values()]
    assert [p for p in own if p in peer] == list(peer)


def test_names_are_there_without_matplotlib():
    code = "import sys, hornbeam as hb; hb.plot_importance; print('matplotlib' in sys.modules, 'shap' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


def test_without_matplotlib_the_extra_is_named(binary, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(hb.HornbeamError, match=r"pip install 'hornbeam\[plot\]'"):
        hb.plot_importance(binary[0])


@pytest.mark.parametrize("kind", ["split", "gain", "cover"])
def test_bars_are_the_importances(binary, kind):
    ax = hb.plot_importance(binary[0], importance_type=kind, max_num_features=3)
    expected = np.sort(binary[0].feature_importance(kind))[-3:]
    np.testing.assert_array_equal([bar.get_width() for bar in ax.patches], expected)
    assert len(ax.get_yticklabels()) == 3


def test_importances_may_be_given_by_name():
    ax = hb.plot_importance({"a": 1.5, "b": 0.25, "c": 0.0}, values_format="{v:.1f}")
    assert [bar.get_width() for bar in ax.patches] == [0.25, 1.5]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a"]
    assert [text.get_text() for text in ax.texts] == ["0.2", "1.5"]


def test_estimators_choose_their_own_importance(classifier):
    model = classifier[0]
    model.importance_type = "gain"
    width = max(bar.get_width() for bar in hb.plot_importance(model).patches)
    model.importance_type = "split"
    assert width == model.booster_.feature_importance("gain").max()


def test_lines_of_a_metric_are_the_evaluations(binary, classifier):
    booster = binary[0]
    ax = hb.plot_metric(booster, metric="auc")
    assert [line.get_label() for line in ax.lines] == ["train", "valid", f"best iteration: {booster.best_iteration}"]
    assert ax.lines[1].get_ydata().tolist() == booster.eval_history["valid"]["auc"]
    assert ax.get_ylabel() == "auc"
    assert len(hb.plot_metric(booster.eval_history, "auc", ["valid"]).lines) == 1
    assert hb.plot_metric(classifier[0]).get_ylabel() == "multi_logloss"


def test_histogram_holds_every_split(binary):
    ax = hb.plot_split_value_histogram(binary[0], "age")
    assert sum(bar.get_height() for bar in ax.patches) == binary[0].feature_importance("split", iteration=10**6)[0]
    assert hb.plot_split_value_histogram(binary[0], 0, bins=5).get_title().endswith("index 0")


def test_given_axes_are_drawn_on(binary):
    _, ax = plt.subplots()
    assert hb.plot_importance(binary[0], ax=ax) is ax
    assert hb.plot_roc(*binary, ax=ax) is ax
    assert hb.plot_tree(binary[0], ax=ax) is ax
    assert hb.plot_beeswarm(binary[0], binary[1], ax=ax) is ax


def test_quality_plots_take_datasets_pairs_and_tables(binary, tables):
    booster, valid = binary
    texts = [
        hb.plot_roc(*arguments).get_legend().get_texts()[0].get_text()
        for arguments in ((booster, valid), (booster, (tables[1], valid.label)), (booster, tables[1], valid.label))
    ]
    assert len(set(texts)) == 1 and texts[0].startswith("AUC 0.")


def test_every_class_has_its_curve_by_name(classifier):
    for plot in (hb.plot_roc, hb.plot_precision_recall, hb.plot_calibration):
        shown = " ".join(text.get_text() for text in plot(*classifier).get_legend().get_texts())
        assert all(name in shown for name in ("bad", "fair", "good"))
    assert [text.get_text() for text in hb.plot_confusion(*classifier).get_xticklabels()] == ["bad", "fair", "good"]


def test_confusion_counts_rows(binary):
    ax = hb.plot_confusion(*binary, threshold=0.3, normalize=False)
    counts = [int(text.get_text().replace(",", "")) for text in ax.texts]
    predicted = binary[0].predict(binary[1].data) >= 0.3
    truth = binary[1].label > 0.5
    assert counts == [int((truth == i)[predicted == j].sum()) for i in (False, True) for j in (False, True)]


def test_residuals_are_label_minus_prediction(regression):
    ax = hb.plot_residuals(*regression)
    points = ax.collections[0].get_offsets()
    np.testing.assert_allclose(points[:, 0] + points[:, 1], regression[1].label, atol=1e-12)


def test_partial_dependence_is_that_of_scikit_learn(tables):
    X = tables[0].drop(columns="city").fillna(0.0)
    model = hb.HornbeamRegressor(n_estimators=5, num_leaves=7, verbosity=-1).fit(X, X["noise"] + X["age"])
    seeing = SeeingModel(model.booster_)
    found = dependence(seeing, seeing.read(X), 0, grid_size=9)
    by_grid = partial_dependence(model, X, ["age"], custom_values={"age": found.grid}, kind="both", method="brute")
    np.testing.assert_allclose(found.lines, by_grid["individual"][0], rtol=1e-12)
    np.testing.assert_allclose(found.mean, by_grid["average"][0], rtol=1e-12)


def test_partial_dependence_of_a_category_is_by_level(binary, tables):
    found = dependence(SeeingModel(binary[0]), SeeingModel(binary[0]).read(tables[1]), 2)
    assert set(found.texts) == {"Paris", "Rome", "Berlin"}
    for text, mean in zip(found.texts, found.mean, strict=True):
        changed = tables[1].assign(city=np.full(len(tables[1]), text))
        assert mean == pytest.approx(binary[0].predict(changed).mean(), rel=1e-12)
    axes = hb.plot_partial_dependence(binary[0], tables[1], ["age", "city", 3], n_rows=50, centered=True)
    assert len(axes) == 3 and axes[1].get_xlabel() == "city"


@pytest.mark.parametrize("style", ["own", "shap"])
def test_contributions_are_drawn(binary, tables, style):
    if style == "shap":
        pytest.importorskip("shap")
    ax = hb.plot_beeswarm(binary[0], tables[1], style=style, n_rows=60)
    assert {text.get_text() for text in ax.get_yticklabels()} >= {"age", "city"}
    ax = hb.plot_waterfall(binary[0], tables[1], 5, style=style)
    assert any("age" in text.get_text() for text in ax.get_yticklabels())


def test_a_waterfall_ends_at_the_raw_score(binary, tables):
    seeing = SeeingModel(binary[0])
    found = binary[0].predict(tables[1][:1], pred_contrib=True)[0]
    steps = waterfall_steps(seeing, found, seeing.read(tables[1][:1])[0], 3)
    assert len(steps) == 3 and steps[-1][1] == "2 other features"
    total = found[-1] + sum(amount for _, _, amount in steps)
    assert total == pytest.approx(binary[0].predict(tables[1][:1], raw_score=True)[0])


def test_points_of_a_swarm_stand_apart():
    offsets = swarm(np.zeros(9))
    assert len(set(offsets.tolist())) == 9 and np.abs(offsets).max() <= 1.0


def test_rows_as_seen_predict_what_the_table_does(binary, classifier, tables):
    for booster in (binary[0], classifier[0].booster_):
        seeing = SeeingModel(booster)
        values = seeing.read(tables[1])
        np.testing.assert_array_equal(np.atleast_2d(booster.predict(tables[1]).T), seeing.predictions(values))
        leaves = booster.predict(tables[1], pred_leaf=True, num_iteration=0)
        np.testing.assert_array_equal(leaves, seeing.leaves(values))


def test_chosen_rows_are_ascending_and_the_same_again():
    rows = choose_rows(1000, 50)
    assert len(rows) == 50 and (np.diff(rows) > 0).all() and (rows == choose_rows(1000, 50)).all()
    assert choose_rows(3, 50).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (1234567.0, "1,234,567"), (0.00012345, "0.0001234"), (12345.6, "12,346"), (np.inf, "inf")],
)
def test_numbers_as_text(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda b, r, X: hb.plot_importance(3), "pass a Booster or a fitted estimator"),
        (lambda b, r, X: hb.plot_importance(hb.HornbeamRegressor()), "not fitted"),
        (lambda b, r, X: hb.plot_importance(b[0], importance_type="much"), "must be 'auto', 'split'"),
        (lambda b, r, X: hb.plot_importance(b[0], figsize=3), "tuple of 2"),
        (lambda b, r, X: hb.plot_metric({}), "no evaluations"),
        (lambda b, r, X: hb.plot_metric(b[0], "rmse"), "evaluated were auc, binary_logloss"),
        (lambda b, r, X: hb.plot_metric(b[0], dataset_names=["x"]), "evaluated were 'train', 'valid'"),
        (lambda b, r, X: hb.plot_metric(b[0], dataset_names=[]), "at least one name"),
        (lambda b, r, X: hb.plot_metric({"valid": [1.0]}), "dict of lists"),
        (lambda b, r, X: hb.plot_split_value_histogram(b[0], "city"), "categorical"),
        (lambda b, r, X: hb.plot_split_value_histogram(b[0], "height"), "none of the model's"),
        (lambda b, r, X: hb.plot_split_value_histogram(b[0], 9), "numbered 0 to 3"),
        (lambda b, r, X: hb.plot_tree(b[0], tree_index=99), "trees 0 to"),
        (lambda b, r, X: hb.plot_tree(b[0], show_info=["colour"]), "show_info has 'colour'"),
        (lambda b, r, X: hb.plot_tree(b[0], orientation="up"), "'horizontal' or 'vertical'"),
        (lambda b, r, X: hb.plot_tree(b[0], example_case=X[:2]), "2 rows"),
        (lambda b, r, X: hb.plot_roc(*r), "no classes"),
        (lambda b, r, X: hb.plot_confusion(*r), "no classes"),
        (lambda b, r, X: hb.plot_residuals(*b), "plot_calibration"),
        (lambda b, r, X: hb.plot_roc(b[0], X), "no labels"),
        (lambda b, r, X: hb.plot_roc(b[0], X, np.full(len(X), 7.0)), "label"),
        (lambda b, r, X: hb.plot_roc(b[0], b[1], b[1].label), "leave label and weight out"),
        (lambda b, r, X: hb.plot_roc(b[0], X[["age"]], b[1].label), "1 features"),
        (lambda b, r, X: hb.plot_roc(*b, class_names=["one"]), "pass 2 names"),
        (lambda b, r, X: hb.plot_confusion(*b, threshold=2), "from 0 to 1"),
        (lambda b, r, X: hb.plot_partial_dependence(b[0], X, []), "at least one"),
        (lambda b, r, X: hb.plot_partial_dependence(b[0], X, "height"), "none of the model's"),
        (lambda b, r, X: hb.plot_partial_dependence(b[0], X, 0, output=3), "outputs 0 to 0"),
        (lambda b, r, X: hb.plot_waterfall(b[0], X, 10**6), "rows 0 to"),
        (lambda b, r, X: hb.plot_beeswarm(b[0], X, style="bees"), "'auto', 'shap' or 'own'"),
    ],
)
def test_bad_input_is_told_in_one_line(binary, regression, tables, draw, words):
    with pytest.raises(hb.HornbeamError, match=words) as caught:
        draw(binary, regression, tables[1])
    assert "\n" not in str(caught.value)


def test_labels_that_are_no_classes_are_refused(classifier):
    model, X, y = classifier
    with pytest.raises(hb.DataError, match="none of the classes"):
        hb.plot_roc(model, X, np.where(y == "bad", "awful", y))


def test_importances_are_drawn_by_xgboosts_arguments(binary):
    ax = hb.plot_importance(binary[0], importance_type="total_gain", max_num_features=2, values_format="<{v:.1f}>")
    largest = np.sort(binary[0].feature_importance("gain"))[-2:]
    assert [text.get_text() for text in ax.texts] == [f"<{value:.1f}>" for value in largest]
    assert not hb.plot_importance(binary[0], show_values=False).texts
    named = hb.plot_importance(binary[0], importance_type="gain", xlabel="by @importance_type@")
    assert named.get_xlabel() == "by gain"
