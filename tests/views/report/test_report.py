"""The report as a file: whole, small, self-contained, harmless, and what it says."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import hornbeam as hb
from hornbeam.views.report.material import Choices, gather
from hornbeam.views.report.sections.overview import reproducing_code

SECTIONS = ["overview", "quality", "features", "effects", "errors", "data", "training", "trees", "machine"]


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and texts by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.data = ""
        self._section = ""
        self._is_data = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "section":
            self._section = attributes["id"]
        self._is_data = tag == "script" and attributes.get("type") == "application/json"

    def handle_data(self, data):
        self.texts[self._section] = self.texts.get(self._section, "") + data + " "
        if self._is_data:
            self.data += data

    def handle_endtag(self, tag):
        self._is_data = self._is_data and tag != "script"


def test_file_is_small_and_needs_nothing_else(case):
    text = case.text
    assert len(text.encode()) < 600_000
    for tag, attributes in Page(text).elements:
        assert "src" not in attributes and tag not in ("link", "iframe", "img", "object", "embed", "base"), tag
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    code = re.sub(r'"http://www\.w3\.org/2000/svg"', "", text)
    assert "http://" not in code and "https://" not in code and "url(" not in code and "@import" not in code


def test_texts_of_users_never_become_elements(case):
    page = Page(case.text)
    assert [tag for tag, _ in page.elements].count("script") == 2
    metas = [attributes for tag, attributes in page.elements if tag == "meta"]
    policy = next(meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy
    assert "window.hacked" in page.texts["overview"]  # it is there, as text
    assert json.loads(page.data)["forest"]["rows"]


def test_every_section_is_there_and_linked(case):
    page = Page(case.text)
    assert [a["id"] for t, a in page.elements if t == "section"] == SECTIONS
    assert [a["href"] for t, a in page.elements if t == "a"][1:] == [f"#{name}" for name in SECTIONS]
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_report_says_what_was_asked_for(case):
    texts = Page(case.text).texts
    assert case.booster.fingerprint() in texts["overview"] and "num_leaves" in texts["overview"]
    for word in ("Split", "Gain", "Cover", "SHAP", "Permutation", "Contributions"):
        assert word in texts["features"], word
    assert "Dependence on" in texts["effects"] and "work together" in texts["effects"]
    assert "Row" in texts["errors"] and "starts at" in texts["errors"]
    assert "drift" in texts["data"] and "categorical" in texts["data"]
    assert "By city" in texts["quality"] and "95% interval" in texts["quality"]
    task = case.path.stem
    suits = {
        "binary": "Calibration",
        "regression": "Residuals",
        "multiclass": "Confusion",
        "ranking": "NDCG@10 by query",
    }
    assert suits[task] in texts["quality"]
    if task == "binary":
        assert f"best: {case.booster.best_iteration}" in texts["training"]


def test_shown_metrics_are_those_of_the_model(binary):
    predicted = binary.booster.predict(binary.valid.data)
    loss = -np.mean(np.log(np.where(binary.valid.label > 0, predicted, 1 - predicted)))
    assert f"{loss:.4g}" in Page(binary.text).texts["quality"]


def test_slider_data_count_the_rows(binary):
    cuts = json.loads(Page(binary.text).data)["thresholds"]
    assert (cuts["p"], cuts["n"]) == ((binary.valid.label > 0).sum(), (binary.valid.label == 0).sum())
    assert cuts["tp"][0] == cuts["p"] and cuts["fp"][0] == cuts["n"]


def test_traced_leaves_are_those_of_the_model(case):
    forest = json.loads(Page(case.text).data)["forest"]
    leaves = case.booster.predict(case.valid.data, pred_leaf=True, num_iteration=0)
    for row in forest["rows"]:
        number = int(row["name"].split()[0])
        assert row["leaves"] == leaves[number, forest["numbers"]].tolist()


def test_the_code_of_the_report_gives_the_same_model(case):
    code = reproducing_code(gather(case.booster, None, None, Choices()))
    assert code in "\n".join(Page(case.text).texts["overview"].splitlines())
    exec(code, {"X": case.train.data, "y": case.train.label, "group": case.train.group})


@pytest.mark.parametrize("learning_rate", [0.1, 0.3])
def test_code_holds_parameters_that_the_data_chose(learning_rate):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    y = X[:, 0] > 2.2  # a rare class
    params = {"objective": "binary", "verbosity": -1, "learning_rate": learning_rate, "monotone_constraints": [1, 0, 0]}
    booster = hb.train(params, hb.Dataset(X, label=y), 3)
    exec(reproducing_code(gather(booster, None, None, Choices())), {"X": X, "y": y})


# --- without data, and with data of other kinds ----------------------------------------------------------------------


def test_a_model_alone_has_a_report_that_says_what_is_left_out(binary, tmp_path):
    path = tmp_path / "alone.html"
    hb.load(_saved(binary.booster, tmp_path)).report(path)
    texts = Page(path.read_text(encoding="utf-8")).texts
    assert "Gain" in texts["features"] and "num_leaves" in texts["overview"]
    for name in ("quality", "effects", "errors", "data"):
        assert "pass valid=" in texts[name]
    assert "Pass evals_result=" in texts["training"]


def _saved(booster, folder):
    booster.save(folder / "model.json")
    return folder / "model.json"


def test_learning_curves_come_from_the_dict_too(binary, tmp_path):
    path = tmp_path / "report.html"
    history = {"held out": {"auc": [0.5, 0.6, 0.7]}}
    hb.load(_saved(binary.booster, tmp_path)).report(path, evals_result=history)
    assert "held out: 0.7" in Page(path.read_text(encoding="utf-8")).texts["training"]


@pytest.mark.parametrize("kind", ["array", "pair", "sparse", "polars", "weighted", "init_score", "forest", "custom"])
def test_any_data_that_predict_takes_has_a_report(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * (rng.uniform(size=(300, 3)) < 0.7)
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    params: dict[str, object] = {"verbosity": -1, "num_leaves": 4}
    if kind == "forest":
        params |= {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}
    if kind == "custom":
        params |= {"objective": lambda scores, data: (scores - data.get_label(), np.ones(len(scores)))}
    booster = hb.train(params, hb.Dataset(X, label=y), 3)
    table = X
    if kind == "sparse":
        table = sparse.csr_matrix(X)
    if kind == "polars":
        table = pytest.importorskip("polars").DataFrame(X, schema=["Column_0", "Column_1", "Column_2"])
    extra = {"weighted": {"weight": np.ones(300)}, "init_score": {"init_score": y}}.get(kind, {})
    valid = (table, y) if kind == "pair" else hb.Dataset(table, label=y, **extra)
    booster.report(tmp_path / "r.html", valid, slices={"half": np.arange(300) < 150}, bootstrap=5, sample_rows=50)
    texts = Page((tmp_path / "r.html").read_text(encoding="utf-8")).texts
    assert "By half" in texts["quality"] and "rmse" in texts["quality"] and "SHAP" in texts["features"]


def test_parts_that_cannot_be_made_say_why(binary, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise hb.HornbeamError("no such thing today")

    for name in ("material.contributions", "material.interactions", "sections.features.permutation_importance"):
        monkeypatch.setattr(f"hornbeam.views.report.{name}", refuse)
    binary.booster.report(tmp_path / "r.html", binary.valid, bootstrap=0)
    texts = Page((tmp_path / "r.html").read_text(encoding="utf-8")).texts
    assert texts["features"].count("no such thing today") == 2 and texts["effects"].count("no such thing today") == 2
    assert "age" in texts["errors"]  # the values of the row instead of its waterfall


@pytest.mark.parametrize("kind", ["one row", "infinite", "missing", "no trees", "weights of 0", "no labels in train"])
def test_odd_data_have_a_report(kind, tmp_path, recwarn):
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.ones(200) if kind == "no trees" else X[:, 0]
    booster = hb.train({"verbosity": -1, "num_leaves": 4}, hb.Dataset(X, label=y), 3)
    weight = np.r_[np.zeros(100), np.ones(100)] if kind == "weights of 0" else None
    changed = {"infinite": np.where(X > 1.0, np.inf, X), "missing": np.full_like(X, np.nan)}.get(kind, X)
    n_rows = 1 if kind == "one row" else 200
    train = X if kind == "no labels in train" else (X, y)
    valid = hb.Dataset(changed[:n_rows], label=y[:n_rows], weight=weight)
    slices = {"half": np.arange(n_rows) // 100, "first": changed[:n_rows, 0]}
    booster.report(tmp_path / "r.html", valid, train=train, slices=slices, bootstrap=20)
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert [a["id"] for t, a in page.elements if t == "section"] == SECTIONS
    assert not [str(one.message) for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_wide_models_of_many_trees_and_classes_stay_below_a_megabyte(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"a very long name of a feature, number {i} " + "x" * 200 for i in range(80)]
    X = pd.DataFrame(rng.normal(size=(1000, 80)), columns=names)
    y = rng.integers(25, size=1000)
    params = {"objective": "multiclass", "num_class": 25, "num_leaves": 31, "min_data_in_leaf": 2, "verbosity": -1}
    booster = hb.train(params, hb.Dataset(X, label=y), 2)
    booster = hb.merge([booster] * 8)
    booster.report(tmp_path / "wide.html", (X, y), bootstrap=5, sample_rows=100)
    text = (tmp_path / "wide.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    assert "of 400 trees are in this file" in text and "The 20 most frequent of 25 classes" in text


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (lambda c: {"valid": hb.Dataset(c.valid.data)}, "valid has no labels"),
        (lambda c: {"valid": c.valid.data}, "valid has no labels"),
        (lambda c: {"valid": (c.valid.data[["age"]], c.valid.label)}, "valid: data has 1 features"),
        (
            lambda c: {"valid": (renamed(c), c.valid.label)},
            "valid: feature 0 of data is 'old'",
        ),
        (lambda c: {"valid": (c.valid.data, c.valid.label[:5])}, "valid: label has"),
        (lambda c: {"valid": (c.valid.data, c.valid.label + 3.0)}, "takes|labels"),
        (lambda c: {"valid": (1, 2, 3)}, "tuple of 3"),
        (lambda c: {"valid": c.valid, "train": c.valid.data[["age"]]}, "train: data has 1 features"),
        (lambda c: {"valid": c.valid, "slices": ["height"]}, "none of the model's"),
        (lambda c: {"valid": c.valid, "slices": "city"}, "pass a list"),
        (lambda c: {"valid": c.valid, "slices": {"x": [1, 2]}}, "one value a row"),
        (lambda c: {"slices": ["city"]}, "needs valid="),
        (lambda c: {"valid": c.valid, "metrics": ["nonsense"]}, "is not known"),
        (lambda c: {"valid": c.valid, "metrics": ["multi_logloss"]}, "does not fit"),
        (lambda c: {"valid": c.valid, "metrics": ["ndcg"]}, "query"),
        (lambda c: {"valid": c.valid, "class_names": ["one"]}, "pass 2 names"),
        (lambda c: {"valid": c.valid, "costs": (1.0, -1.0)}, "two numbers"),
        (lambda c: {"valid": c.valid, "costs": "ab"}, "two numbers"),
        (lambda c: {"evals_result": [1]}, "evals_result must be"),
        (lambda c: {"evals_result": {"valid": [1]}}, "dict of lists"),
        (lambda c: {"notes": "text"}, "notes must be"),
        (lambda c: {"sample_rows": 0}, "sample_rows"),
        (lambda c: {"bootstrap": -1}, "bootstrap"),
    ],
)
def test_bad_input_is_told_in_one_line_and_leaves_no_file(binary, tmp_path, choices, words):
    with pytest.raises(hb.HornbeamError, match=words) as caught:
        binary.booster.report(tmp_path / "report.html", **choices(binary))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def renamed(case):
    return case.valid.data.rename(columns={"age": "old"})


def test_a_ranking_without_queries_is_refused(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    train = hb.Dataset(X, label=np.arange(100) % 3, group=[20] * 5)
    booster = hb.train({"objective": "lambdarank", "verbosity": -1}, train, 1)
    with pytest.raises(hb.DataError, match="group= or qid="):
        booster.report(tmp_path / "report.html", (X, np.arange(100) % 3))


@pytest.mark.parametrize("path", ["missing/report.html", ".", "a\0b.html", 3])
def test_paths_that_cannot_be_written_are_told_before_the_work(binary, tmp_path, path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hornbeam.views.report.gather", None)  # where the work begins
    with pytest.raises(hb.HornbeamError) as caught:
        binary.booster.report(path, binary.valid)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_report_leaves_the_old_one(binary, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(hb.HornbeamError):
        binary.booster.report(path, binary.valid, slices=["height"])
    assert path.read_text() == "old"


def test_labels_of_one_class_have_no_curves(binary, tmp_path):
    data = binary.valid.data[:50]
    binary.booster.report(tmp_path / "r.html", (data, np.zeros(50)), bootstrap=0)
    assert "All rows are of one class" in Page((tmp_path / "r.html").read_text(encoding="utf-8")).texts["quality"]
