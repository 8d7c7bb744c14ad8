"""MLflow: models come back from its folders with the same fingerprint, and `autolog` keeps a record of trainings."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import hornbeam as hb
from hornbeam.companions import mlflow as companion
from hornbeam.companions.packages import MissingPackageError
from hornbeam.testing.data import make_higgs_like
from hornbeam.training.watchers import WATCHERS

X, Y = make_higgs_like(300, 6)
FAST = {"objective": "binary", "metric": ["auc", "binary_logloss"], "num_leaves": 7, "verbosity": -1}


def train(rounds=4, **arguments):
    data = hb.Dataset(X, label=Y)
    return hb.train(FAST, data, rounds, {"v": hb.Dataset(X, label=Y, reference=data)}, **arguments)


def test_without_mlflow_the_error_names_the_extra(monkeypatch):
    for name in ("mlflow", "mlflow.models"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (companion.autolog, lambda: companion.save_model(None, "folder")):
        with pytest.raises(MissingPackageError, match=r"pip install 'hornbeam\[companions\]'"):
            call()
    assert WATCHERS == []


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """MLflow with a data base of its own; to make it takes seconds."""
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: pip install 'hornbeam[companions]'")
    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
    return mlflow, folder


@pytest.fixture
def mlflow(server, monkeypatch, request):
    mlflow, folder = server
    monkeypatch.chdir(folder)
    mlflow.set_experiment(request.node.name)
    yield mlflow
    companion.autolog(disable=True)
    while mlflow.active_run() is not None:
        mlflow.end_run()


# --- the flavour ------------------------------------------------------------------------------------------------------


def test_a_booster_comes_back_from_a_folder(mlflow, tmp_path):
    booster = train(callbacks=[hb.early_stopping(2, verbose=False)])
    companion.save_model(booster, tmp_path / "folder", input_example=X[:3], metadata={"note": "mine"})
    assert companion.load_model(tmp_path / "folder").fingerprint() == booster.fingerprint()
    served = mlflow.pyfunc.load_model(str(tmp_path / "folder"))
    assert served.predict(X).tobytes() == booster.predict(X).tobytes()
    assert served.get_raw_model().fingerprint() == booster.fingerprint()
    assert served.metadata.signature.inputs.is_tensor_spec()
    assert np.array_equal(served.input_example, X[:3])
    assert served.metadata.metadata["note"] == "mine"
    assert served.metadata.flavors["hornbeam"]["fingerprint"] == booster.fingerprint()
    assert f"hornbeam=={hb.__version__}" in (tmp_path / "folder" / "requirements.txt").read_text()


def test_an_estimator_on_a_frame_comes_back_with_its_classes(mlflow, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = hb.HornbeamClassifier(n_estimators=3, num_leaves=7, verbosity=-1).fit(frame, np.where(Y > 0, "yes", "no"))
    companion.save_model(model, tmp_path / "folder", input_example=frame[:3])
    back = companion.load_model(str(tmp_path / "folder"))
    assert back.get_params() == model.get_params()
    assert back.booster_.fingerprint() == model.booster_.fingerprint()
    served = mlflow.pyfunc.load_model(str(tmp_path / "folder"))
    assert np.array_equal(served.predict(frame), model.predict(frame))
    assert served.metadata.signature.inputs.input_names() == list("abcdef")


def test_a_logged_model_is_loaded_from_its_address(mlflow):
    booster = train()
    signature = mlflow.models.infer_signature(X[:2], booster.predict(X[:2]))
    with mlflow.start_run():
        info = companion.log_model(booster, name="mine", signature=signature, registered_model_name="registered")
    assert companion.load_model(info.model_uri).fingerprint() == booster.fingerprint()
    assert companion.load_model("models:/registered/1").fingerprint() == booster.fingerprint()
    assert mlflow.pyfunc.load_model(info.model_uri).predict(X).tobytes() == booster.predict(X).tobytes()


def test_what_is_no_model_is_refused(mlflow, tmp_path):
    with pytest.raises(hb.ParameterError, match="or a fitted estimator"):
        companion.save_model(hb.HornbeamClassifier(), tmp_path / "folder")
    with pytest.raises(hb.ParameterError, match="pipelines"):
        companion.log_model(make_pipeline(hb.HornbeamClassifier()))
    assert not (tmp_path / "folder").exists()


def test_a_folder_that_is_not_empty_is_refused(mlflow, tmp_path):
    companion.save_model(train(), tmp_path / "folder")
    with pytest.raises(hb.ParameterError, match="not empty"):
        companion.save_model(train(), tmp_path / "folder")


def half_squared(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_pred)


def test_an_estimator_with_a_function_is_refused_and_its_booster_is_not(mlflow, tmp_path):
    model = hb.HornbeamRegressor(objective=half_squared, n_estimators=2, verbosity=-1).fit(X, Y)
    with pytest.raises(hb.ParameterError, match=r"half_squared.*save its booster_ instead"):
        companion.save_model(model, tmp_path / "one")
    companion.save_model(model.booster_, tmp_path / "two")
    assert companion.load_model(tmp_path / "two").fingerprint() == model.booster_.fingerprint()


def test_folders_that_hold_no_model_of_ours_are_refused(mlflow, tmp_path):
    companion.save_model(train(), tmp_path / "folder")
    about = (tmp_path / "folder" / "MLmodel").read_text()
    (tmp_path / "folder" / "model.json").unlink()
    with pytest.raises(hb.ModelFormatError, match=r"lacks the file model\.json"):
        companion.load_model(tmp_path / "folder")
    (tmp_path / "folder" / "MLmodel").write_text(about.replace("data: model.json", "data: ../model.json"))
    with pytest.raises(hb.ModelFormatError, match=r"lacks the file \.\./model\.json"):
        companion.load_model(tmp_path / "folder")
    (tmp_path / "folder" / "MLmodel").write_text(about.replace("  hornbeam:\n", "  other:\n"))
    with pytest.raises(hb.ModelFormatError, match="holds no Hornbeam model, but other, python_function"):
        companion.load_model(tmp_path / "folder")
    (tmp_path / "empty").mkdir()
    with pytest.raises(hb.ModelFormatError, match="no model folder of MLflow"):
        companion.load_model(tmp_path / "empty")


def test_another_model_in_the_folder_is_refused(mlflow, tmp_path):
    companion.save_model(train(), tmp_path / "folder")
    train(3).save(tmp_path / "folder" / "model.json")
    with pytest.raises(hb.ModelFormatError):
        companion.load_model(tmp_path / "folder")


# --- autolog ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(mlflow, request):
    return lambda: list_runs(mlflow, request.node.name)


def list_runs(mlflow, experiment):
    found = mlflow.MlflowClient().search_runs([mlflow.get_experiment_by_name(experiment).experiment_id])
    return sorted(found, key=lambda run: run.info.start_time)


def test_a_training_becomes_a_run_and_its_model_is_the_same(mlflow, runs):
    plain = train()
    companion.autolog()
    booster = train()
    assert booster.fingerprint() == plain.fingerprint()
    (run,) = runs()
    assert run.info.status == "FINISHED"
    assert mlflow.active_run() is None
    assert run.data.params["num_leaves"] == "7"
    assert run.data.params["num_iterations"] == "4"
    assert run.data.params["objective"] == "binary"
    assert "max_bin" not in run.data.params
    assert run.data.tags["hornbeam.fingerprint"] == booster.fingerprint()
    client = mlflow.MlflowClient()
    for metric in ("auc", "binary_logloss"):
        logged = client.get_metric_history(run.info.run_id, f"v-{metric}")
        assert [(m.step, m.value) for m in logged] == list(enumerate(booster.eval_history["v"][metric]))
    shown = json.loads(mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/feature_importance.json"))
    assert list(shown["split"].values()) == booster.feature_importance("split").tolist()
    assert list(shown["gain"].values()) == booster.feature_importance("gain").tolist()
    (logged,) = mlflow.search_logged_models([run.info.experiment_id], output_format="list")
    assert companion.load_model(logged.model_uri).fingerprint() == booster.fingerprint()


def test_fits_use_the_active_run_and_then_nested_ones(mlflow, runs):
    companion.autolog(log_models=False)
    with mlflow.start_run() as outer:
        for _ in range(2):
            hb.HornbeamRegressor(n_estimators=2, num_leaves=7, verbosity=-1).fit(X, Y)
    found = runs()
    assert [run.data.tags.get("mlflow.parentRunId") for run in found] == [None, outer.info.run_id]
    assert len({run.data.tags["hornbeam.fingerprint"] for run in found}) == 1
    assert [run.info.status for run in found] == ["FINISHED"] * 2


def test_a_training_that_fails_leaves_a_failed_run(mlflow, runs):
    def fail(env):
        if env.iteration == 2:
            raise RuntimeError("stop here")

    companion.autolog()
    with pytest.raises(RuntimeError, match="stop here"):
        train(callbacks=[fail])
    (run,) = runs()
    assert run.info.status == "FAILED"
    assert len(mlflow.MlflowClient().get_metric_history(run.info.run_id, "v-auc")) == 3


def test_a_server_that_fails_later_does_not_cost_the_model(mlflow, monkeypatch, caplog):
    def refuse(*arguments, **keywords):
        raise OSError("no route to host")

    companion.autolog()

    def cut_off(env):
        monkeypatch.setattr(mlflow.MlflowClient, "log_batch", refuse)
        monkeypatch.setattr(mlflow.MlflowClient, "set_tag", refuse)

    with caplog.at_level(logging.WARNING, "hornbeam"):
        assert train(callbacks=[cut_off]).n_iterations == 4
    assert "MLflow did not take metrics: no route to host" in caplog.text
    assert "MLflow did not take the fingerprint" in caplog.text


def test_a_server_that_fails_at_once_is_an_error_before_training(mlflow, monkeypatch):
    def refuse(*arguments, **keywords):
        raise OSError("no route to host")

    companion.autolog()
    monkeypatch.setattr(mlflow, "log_params", refuse)
    seen = []
    with pytest.raises(OSError, match="no route"):
        train(callbacks=[seen.append])
    assert seen == []
    assert mlflow.active_run() is None


def test_autolog_is_on_once_and_can_be_turned_off(mlflow, runs):
    companion.autolog()
    companion.autolog(log_models=False)
    assert len(WATCHERS) == 1
    companion.autolog(disable=True)
    train()
    assert runs() == []


@pytest.mark.parametrize(("dataset", "metric", "name"), [("v", "ndcg@5", "v-ndcg_at_5"), ("a*b", "l2", "a_b-l2")])
def test_metrics_have_names_that_mlflow_allows(dataset, metric, name):
    assert companion.autologging.metric_name(dataset, metric) == name
