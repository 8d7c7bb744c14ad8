"""benchmarks/paper.py: its page has every table and figure, a run goes on where it stopped, real files are read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytest.importorskip("scipy")

import paper
from reproduction import bandwidth, learners, page, printed, profiles, sets, tables, trainings
from reproduction.files import LOADERS
from reproduction.journal import Journal, OutOfTimeError

HEADINGS = [
    "Data sets (Table 1)", "Hardware (Table 2)", "GPU memory (Table 3)", "Metrics (Table 4)",
    "Training time (Figure 1)",
    "What a tree spends its time on (Table 5)", "Histogram bandwidth by depth (Figure 2)", "Convergence (Figure 3)",
    "15, 63 and 255 bins (Table 6, Figure 4)", "Fingerprints", "What was not measured",
]  # fmt: skip


DRAWN = ("higgs", "mslr")
"""Sets with trainings: drawing takes long."""


def made_up_results() -> dict:
    """Return a results.json of a machine with everything; each number can be told from the others."""
    steps: dict = {
        "hardware": {
            "cpu": {"name": "Some CPU", "cores": 2, "memory_bytes": 2**34, "bandwidth": 1e10},
            "gpu": {"device": "cuda:0", "name": "Some GPU", "memory_bytes": 2**33, "bandwidth": 5e11, "flops": 9e12},
            "python": "3.12.0", "system": "Linux", "versions": {"hornbeam": "9.9"}, "day": "2026-01-01",
        }
    }  # fmt: skip
    value = 0
    for one in sets.SETS.values():
        facts = {
            "source": "made",
            "rows": 10,
            "features": 3,
            "test_rows": 5,
            "queries": None,
            "zeros": 0.5,
            "missing": 0,
        }
        steps[f"data/{one.key}"] = facts
        for method in ("k63", "k255", "k15", "exact"):
            value += 1
            steps[f"memory/{one.key}/{method}"] = {"counted": 1000 + value, "peak": 2000 + value}
        for _, device, library, method in trainings.plan([one.key], list(learners.LIBRARIES), ["cpu", "gpu"]):
            if one.key not in DRAWN:
                continue
            value += 1
            metrics = dict.fromkeys(one.metrics, value / 1000)
            steps[trainings.key_of(one.key, library, device, method)] = {
                "iterations": 20, "target": 20, "iteration_ms": 3000.0 + value, "processor_ms": 6.0, "all_s": 1.0,
                "metrics": metrics,
                "curve": [[1, 0.5], [20, 0.6]], "fingerprint": f"{value % 2:064x}", "load": 0.5,
            }  # fmt: skip
    for one in profiles.PROFILED:
        for device in ("cpu", "gpu"):
            names = [pair[device == "gpu"] for pair in tables.STAGES.values()]
            steps[f"profile/{one}/{device}"] = {"stages": dict.fromkeys(names, 1.0), "iteration_ms": 4.0}
    for bins in bandwidth.BINS:
        for device in ("cpu", "gpu"):
            points = [[depth, 10, 5.5, None if device == "cpu" else 4.5] for depth in (0, 1, 2)]
            steps[f"bandwidth/{device}/{bins}"] = {"is_gpu": True, "rows": 10, "features": 2, "points": points}
    return {
        "steps": steps, "skipped": {"train/higgs/peer/gpu/k63": "not there: y"}, "about": {},
        "commands": ["some command"], "setting": {"rows": "small", "data": False},
    }  # fmt: skip


def test_the_page_has_every_table_and_figure(tmp_path):
    pytest.importorskip("matplotlib")
    held = made_up_results()
    (tmp_path / "results.json").write_text(json.dumps(held))
    page.write(tmp_path)
    text = (tmp_path / "paper.md").read_text()
    assert [heading for heading in HEADINGS if f"## {heading}" not in text] == []
    for name in ("times", "bandwidth", "convergence", "bins"):
        assert f"({name}.svg)" in text and (tmp_path / f"{name}.svg").stat().st_size > 1000
    for step in held["steps"].values():  # every number is somewhere
        for value in [*step.get("metrics", {}).values(), *(step[k] for k in ("counted", "peak") if k in step)]:
            assert f"{value:.6f}" in text or f"{value:,.0f}" in text
    for paper_values in printed.METRICS.values():
        assert all(
            value in text if isinstance(value, str) else f"{value:.6f}" in text for value in paper_values.values()
        )
    assert "Some GPU" in text and "not there: y: train peer gpu (1)" in text and "DIFFER" in text


def test_a_page_of_nothing_measured_has_the_papers_numbers_and_says_what_is_missing():
    text = page.text_of({**made_up_results(), "steps": {}}, [])
    assert [heading for heading in HEADINGS if f"## {heading}" not in text] == []
    assert "0.845612" in text and "--draw" in text


def test_the_papers_printed_numbers_are_those_of_its_text():
    assert printed.METRICS["yahoo", "ndcg@3"]["k63", "gpu"] == 0.739474
    assert printed.METRICS["bosch", "auc"]["exact", "gpu"] == 0.705512
    assert printed.METRICS["expo", "auc"]["k15", "cpu"] == 0.743329
    assert printed.MEMORY["epsilon"] == (901, "OOM")
    assert set(printed.MEMORY) == set(sets.SETS) == {key[0] for key in printed.METRICS}


def test_a_finished_step_is_not_done_again(tmp_path):
    done = []

    def step(name: str) -> dict:
        done.append(name)
        return {"summary": name}

    for _ in range(2):
        journal = Journal(tmp_path / "results.json", {"rows": "small"})
        for name in ("a", "b"):
            assert journal.step(name, lambda name=name: step(name))["summary"] == name
    assert done == ["a", "b"]


def test_a_step_that_failed_is_kept_and_done_again_on_request(tmp_path):
    def fails() -> dict:
        raise ValueError("no such device")

    journal = Journal(tmp_path / "results.json", {"rows": "small"})
    assert journal.step("a", fails) is None
    assert Journal(tmp_path / "results.json", {"rows": "small"}).step("a", lambda: {"x": 1}) is None
    again = Journal(tmp_path / "results.json", {"rows": "small"}, retry=True)
    assert again.step("a", lambda: {"x": 1})["x"] == 1
    assert "no such device" not in (tmp_path / "results.json").read_text()


def test_a_step_that_ended_the_process_is_not_done_again(tmp_path):
    journal = Journal(tmp_path / "results.json", {"rows": "small"})
    held = []
    journal.step("a", lambda: held.append((tmp_path / "results.json").read_text()) or {"x": 1})
    (tmp_path / "results.json").write_text(held[0])  # as a process leaves it that is killed in the middle
    again = Journal(tmp_path / "results.json", {"rows": "small"})
    assert again.step("a", lambda: {"x": 2}) is None and "ended during this step" in again.steps["a"]["failed"]
    assert again.step("b", lambda: {"x": 3})["x"] == 3


def test_results_of_another_size_are_not_mixed(tmp_path):
    journal = Journal(tmp_path / "results.json", {"rows": "small"})
    journal.step("a", dict)
    with pytest.raises(SystemExit, match="--out"):
        Journal(tmp_path / "results.json", {"rows": "full"})


def test_no_step_begins_after_the_minutes_are_over(tmp_path):
    journal = Journal(tmp_path / "results.json", {"rows": "small"}, minutes=1e-9)
    with pytest.raises(OutOfTimeError):
        journal.step("a", dict)


def test_the_area_under_the_curve_is_that_of_scikit_learn():
    sk = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for levels in (2, 10, 10_000):
        y, score = rng.integers(0, 2, 500).astype(float), rng.integers(0, levels, 500) / 7
        assert trainings.auc(y, score) == pytest.approx(sk.roc_auc_score(y, score), abs=1e-12)


FAST = {"device": "reference", "num_leaves": 2}


def test_a_run_ends_with_a_page_and_a_second_one_trains_nothing(tmp_path, monkeypatch, capsys):
    trained = []
    monkeypatch.setattr(page.figures, "draw", lambda steps, out: [])
    original = trainings.train
    monkeypatch.setattr(trainings, "train", lambda *given: trained.append(given[0].key) or original(*given))
    monkeypatch.setitem(trainings.ITERATIONS, "small", 2)
    monkeypatch.setattr(paper.hardware, "COPIED", 1 << 16)
    reference = learners.parameters
    monkeypatch.setattr(learners, "parameters", lambda *given: {**reference(*given), **FAST})
    small = {key: sets.PaperSet(**{**vars(sets.SETS[key]), "small": 240}) for key in ("higgs", "mslr")}
    monkeypatch.setattr(trainings, "SETS", small)
    arguments = ["--only", "time", "--sets", "higgs,mslr", "--libraries", "hornbeam", "--devices", "cpu"]
    monkeypatch.setattr(sys, "argv", ["paper.py", *arguments, "--out", str(tmp_path)])
    paper.main()
    held = json.loads((tmp_path / "results.json").read_text())
    assert len(held["steps"]["train/higgs/hornbeam/cpu/k63"]["fingerprint"]) == 64
    assert held["steps"]["train/mslr/hornbeam/cpu/k15"]["metrics"].keys() == {"ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10"}
    n_trained = len(trained)
    assert n_trained >= 6
    paper.main()
    assert len(trained) == n_trained
    assert "paper.md" in capsys.readouterr().out


def write_flights(path: Path, n_rows: int) -> None:
    rng = np.random.default_rng(len(path.name))
    lines = ["Month,DayofMonth,DayOfWeek,DepTime,UniqueCarrier,Origin,Dest,Distance,DepDelay"]
    for row in range(n_rows):
        delay = "NA" if row == 3 else str(rng.integers(-5, 60))
        day = f"{row % 12 + 1},{row % 28 + 1},{row % 7 + 1},{600 + row}"
        lines.append(f"{day},AA,{'JFK' if row % 2 else 'LAX'},ORD,{100 + row},{delay}")
    path.write_text("\n".join(lines) + "\n")


def test_real_files_are_read_where_the_folder_has_them(tmp_path):
    pytest.importorskip("pyarrow")
    assert all(load(tmp_path) is None for load in LOADERS.values())
    rng = np.random.default_rng(0)
    (tmp_path / "HIGGS.csv").write_text(
        "".join(",".join(f"{x:.18e}" for x in [row % 2, *rng.normal(size=28)]) + "\n" for row in range(44))
    )
    (tmp_path / "train_numeric.csv").write_text(
        "Id,L0,L1,Response\n" + "".join(f"{i},0.5,,{i % 2}\n" for i in range(12))
    )
    for name in ("epsilon_normalized", "epsilon_normalized.t"):
        (tmp_path / name).write_text("".join(f"{'-1' if i % 2 else '+1'} 1:0.5 3:{i}\n" for i in range(8)))
    (tmp_path / "Fold1").mkdir()
    for name in ("Fold1/train.txt", "Fold1/test.txt", "set1.train.txt", "set1.test.txt"):
        (tmp_path / name).write_text("".join(f"{i % 3} qid:{7 - i // 4} 1:{i} 2:0.25\n" for i in range(12)))
    for year in (2005, 2006, 2007):
        write_flights(tmp_path / f"{year}.csv", 20)
    found = {key: load(tmp_path) for key, load in LOADERS.items()}
    assert found["higgs"][0].X.shape == (40, 28) and found["higgs"][1].X.shape == (4, 28)
    assert found["higgs"][0].y[:4].tolist() == [0, 1, 0, 1]
    assert found["bosch"][0].X.shape == (10, 2) and np.isnan(found["bosch"][0].X[:, 1]).all()
    assert found["epsilon"][0].X.shape == (8, 4) and found["epsilon"][0].y[:2].tolist() == [1, 0]
    for key in ("mslr", "yahoo"):
        assert found[key][0].sizes.tolist() == [4, 4, 4] and found[key][1].X[5].tolist() == [0, 5, 0.25]
    flights, tested = found["expo"]
    assert flights.X.shape == (38, 12 + 19 + 7 + 1 + 2 + 1 + 2) and tested.X.shape[0] == 19
    assert flights.X.nnz == 8 * 38 and set(flights.y) == {0.0, 1.0}
    assert sets.load(sets.SETS["higgs"], "small", tmp_path).source == "files"
    assert sets.head(found["mslr"][0], 9).sizes.tolist() == [4, 4]
