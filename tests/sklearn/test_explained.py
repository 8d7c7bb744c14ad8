"""Estimators explain and report as their boosters do, with labels as the user has them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb

SMALL = {"n_estimators": 3, "num_leaves": 5, "device": "reference", "verbosity": -1}
CHOICES = {"sample_rows": 30, "bootstrap": 0}

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(150, 3)), columns=["size", "weight", "age"])
SCORE = X["size"].to_numpy() + 0.3 * rng.normal(size=150)
KINDS = np.array(["oak", "hornbeam", "<ash>"])[np.digitize(SCORE, [-0.5, 0.5])]
QUERIES = np.repeat(np.arange(15), 10)


@pytest.fixture(scope="module")
def classifier():
    return hb.HornbeamClassifier(**SMALL).fit(X, KINDS)


@pytest.fixture(scope="module")
def ranker():
    return hb.HornbeamRanker(**SMALL).fit(X.assign(qid=QUERIES), np.digitize(SCORE, [-0.5, 0.5]))


@pytest.mark.parametrize("background", [None, X[:20]])
def test_explanations_are_those_of_the_booster(classifier, background):
    shown, expected = classifier.explain(X[:5], background), classifier.booster_.explain(X[:5], background)
    assert (shown.values == expected.values).all() and (shown.base_values == expected.base_values).all()
    assert shown.values.shape == (5, 3, 3)


def test_choices_of_explanations_are_handed_on(classifier):
    shown = classifier.explain(X[:5], num_iteration=1, cover="weight")
    assert (shown.values == classifier.booster_.explain(X[:5], num_iteration=1, cover="weight").values).all()


def test_report_takes_labels_as_fit_does(classifier, tmp_path):
    path, codes = tmp_path / "report.html", np.searchsorted(classifier.classes_, KINDS)
    classifier.report(path, (X, KINDS), train=(X, KINDS), title="Trees", **CHOICES)
    text = path.read_text()
    assert "hornbeam" in text and "&lt;ash&gt;" in text and "<ash>" not in text
    other = tmp_path / "booster.html"
    names = classifier.classes_.tolist()
    classifier.booster_.report(other, (X, codes), train=(X, codes), title="Trees", class_names=names, **CHOICES)
    assert len(text) == pytest.approx(len(other.read_text()), abs=200)  # but for timings


def test_report_of_a_regressor_and_without_data(tmp_path):
    regressor = hb.HornbeamRegressor(**SMALL).fit(X.to_numpy(), SCORE)
    regressor.report(tmp_path / "report.html", (X.to_numpy(), SCORE), **CHOICES)
    regressor.report(tmp_path / "model.html", **CHOICES)
    assert (tmp_path / "report.html").stat().st_size > (tmp_path / "model.html").stat().st_size


def test_ranker_takes_queries_from_their_column(ranker, tmp_path):
    frame, labels = X.assign(qid=QUERIES), np.digitize(SCORE, [-0.5, 0.5])
    ranker.report(tmp_path / "report.html", (frame, labels), **CHOICES)
    assert "NDCG" in (tmp_path / "report.html").read_text()
    assert (ranker.explain(frame).values == ranker.explain(X).values).all()
    with pytest.raises(hb.DataError, match="valid has no queries"):
        ranker.report(tmp_path / "none.html", (X, labels), **CHOICES)


def test_bad_data_are_refused_and_nothing_is_written(classifier, tmp_path):
    path = tmp_path / "report.html"
    for valid, error, message in [
        (X, hb.DataError, r"valid must be a pair \(X, y\)"),
        ((X, np.full(150, "elm")), hb.DataError, "classes that fit has not seen"),
        ((X, KINDS[:-1]), ValueError, "inconsistent numbers of samples"),
        ((X.rename(columns={"age": "years"}), KINDS), ValueError, "feature names"),
    ]:
        with pytest.raises(error, match=message):
            classifier.report(path, valid, **CHOICES)
    assert not path.exists()


def test_estimators_that_are_not_fitted_say_so(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        hb.HornbeamRegressor().explain(X)
    with pytest.raises(ValueError, match="not fitted"):
        hb.HornbeamRegressor().report(tmp_path / "report.html")
