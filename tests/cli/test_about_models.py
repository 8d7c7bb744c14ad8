"""inspect, diff, explain, report and convert tell what is in a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

import hornbeam as hb


def test_inspect_tells_the_facts_of_a_model(run):
    booster = hb.load("m.json")
    shown = json.loads(run("inspect", "m.json", "--json").stdout)
    assert shown["fingerprint"] == booster.fingerprint()
    assert shown["leaves"] == sum(tree.n_leaves for tree in booster.trees)
    assert shown["params"] == booster.params
    assert [row["gain"] for row in shown["importance"]] == booster.feature_importance("gain").tolist()
    text = run("inspect", "m.json", "--top", "1").stdout
    assert booster.fingerprint() in text and "num_leaves\t7" in text
    best = booster.feature_names[int(np.argmax(booster.feature_importance("gain")))]
    assert text.rstrip().splitlines()[-1].startswith(best)


def test_a_tree_is_shown_as_it_decides(run):
    booster, frame = hb.load("m.json"), pd.read_csv("test.csv")
    root = json.loads(run("inspect", "m.json", "--tree", "0", "--json").stdout)["tree"]

    def leaf_of(row) -> int:
        node = root
        while "leaf" not in node:
            name, word, rest = node["condition"].split(" ", 2)
            if word == "in":
                goes = row[name] in rest.strip("{}").split(", ")
            else:
                number, *missing = rest.split(" or ")
                goes = bool(missing) if row[name] != row[name] else row[name] <= float(number)
            node = node["yes" if goes else "no"]
        return node["leaf"]

    expected = booster.predict(frame[booster.feature_names], pred_leaf=True)[:, 0]
    assert [leaf_of(row) for _, row in frame.iterrows()] == expected.tolist()
    lines = run("inspect", "m.json", "--tree", "0").stdout.splitlines()
    assert len(lines) == 2 * booster.trees[0].n_leaves - 1


def test_a_model_is_the_same_as_itself(run):
    assert "the same, to the bit" in run("diff", "m.json", "m.json", "test.csv", "-q").stdout


def test_models_that_differ_end_with_code_1(run):
    shown = json.loads(run("diff", "m.json", "other.json", "test.csv", "--json", "-q", code=1).stdout)
    assert shown["parameters"] == {"num_leaves": [7, 5]} and not shown["same"]
    frame = pd.read_csv("test.csv")[hb.load("m.json").feature_names]
    apart = np.abs(hb.load("m.json").predict(frame) - hb.load("other.json").predict(frame))
    assert shown["predictions"]["largest_difference"] == apart.max()
    assert shown["predictions"]["rows_that_differ"] == np.count_nonzero(apart)
    assert "num_leaves" in run("diff", "m.json", "other.json", code=1).stdout


def test_leaves_that_moved_are_told_from_structure(run):
    booster, frame = hb.load("m.json"), pd.read_csv("test.csv")
    booster.refit(frame[booster.feature_names], frame["y"], decay_rate=0.5).save("refit.json")
    trees = json.loads(run("diff", "m.json", "refit.json", "--json", code=1).stdout)["trees"]
    assert trees["same_structure"] == 6 and trees["same"] < 6
    booster[:4].save("short.json")
    trees = json.loads(run("diff", "m.json", "short.json", "--json", code=1).stdout)["trees"]
    assert trees == {"numbers": [6, 4], "same": 4, "same_structure": 4, "first_that_differs": None}


def test_convert_to_hornbeam_writes_the_model(run):
    shown = json.loads(run("convert", "m.json", "-o", "copy.json", "--json").stdout)
    assert shown["fingerprint"] == hb.load("copy.json").fingerprint() == hb.load("m.json").fingerprint()


def test_convert_to_lightgbm_and_back(run):
    run("convert", "m.json", "--to", "lightgbm", "-o", "m.txt")
    run("convert", "m.txt", "-o", "back.json")
    frame = pd.read_csv("test.csv")[hb.load("m.json").feature_names]
    codes = frame.assign(city=frame["city"])
    assert Path("m.txt").read_text().startswith("tree")
    assert (hb.load("back.json").predict(codes) == hb.load("m.json").predict(frame)).all()


def test_contributions_add_up_to_raw_scores(run):
    booster, frame = hb.load("m.json"), pd.read_csv("test.csv")
    run("explain", "m.json", "test.csv", "-o", "c.csv")
    contributions = pd.read_csv("c.csv")
    assert list(contributions.columns) == [*booster.feature_names, "bias"]
    raw = booster.predict(frame[booster.feature_names], raw_score=True)
    assert np.allclose(contributions.sum(axis=1), raw, rtol=1e-12, atol=1e-12)
    shown = json.loads(run("explain", "m.json", "test.csv", "--json").stdout)["mean_contribution"]
    for name, size in shown.items():
        assert np.isclose(size, contributions[name].abs().mean())
    assert "age" in run("explain", "m.json", "test.csv", "--top", "9").stdout


def test_a_report_is_written(run):
    shown = json.loads(run("report", "m.json", "test.csv", "-l", "y", "-o", "r.html", "--json").stdout)
    assert shown["report"] == "r.html" and "<html" in Path("r.html").read_text(encoding="utf-8").lower()


def test_a_report_takes_training_data_slices_and_a_title(run):
    run("report", "m.json", "test.csv", "-l", "y", "--train", "train.csv", "--slice", "city", "--title", "Who <buys>")
    text = Path("report.html").read_text(encoding="utf-8")
    assert "Who &lt;buys&gt;" in text and "training data" in text and "city" in text


def test_a_report_on_the_model_alone_is_asked_for(run):
    run("report", "m.json", "--alone", "-o", "alone.html")
    run("report", "m.json", "test.csv", "-l", "y", "-o", "judged.html")
    assert Path("alone.html").stat().st_size < Path("judged.html").stat().st_size
