"""`Booster.save(format=)`: what cannot be said is an error before anything is written, or a warning if allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.convert.lightgbm import objectives as lightgbm
from hornbeam.convert.xgboost import objectives as xgboost
from hornbeam.core.errors import ConversionError, HornbeamError, ParameterError
from hornbeam.data.levels import Levels
from hornbeam.objectives import OBJECTIVES

FORMATS = ["hornbeam", "lightgbm", "xgboost-json", "xgboost-ubj", "onnx", "treelite", "c", "python"]
STAND_INS = {"lightgbm": lightgbm.STAND_INS, "xgboost-json": xgboost.STAND_INS}
NEED = {"onnx": "onnx", "treelite": "treelite"}


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_written(format, models, tmp_path):
    if format in NEED:
        pytest.importorskip(NEED[format])
    path = tmp_path / "model"
    hb.Booster(models["float32"]()).save(path, format=format)
    assert path.stat().st_size > 1000
    assert [own.name for own in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("format", FORMATS)
def test_best_iteration_alone_is_written(format, models, tmp_path):
    if format in NEED:
        pytest.importorskip(NEED[format])
    booster = hb.Booster(models["best"]())
    booster.save(tmp_path / "a", format=format)
    booster[:3].save(tmp_path / "b", format=format)
    assert ((tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()) == (format != "hornbeam")


def test_unknown_format_is_named_with_the_nearest(models, tmp_path):
    with pytest.raises(ParameterError, match=r"format='xgboost_json': must be one of 'hornbeam', .*xgboost-json"):
        hb.Booster(models["float32"]()).save(tmp_path / "model", format="xgboost_json")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_said_leaves_the_old_file(models, tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    with pytest.raises(ConversionError, match=r"With approximate=True \(--approximate\), they become one"):
        hb.Booster(models["numbers"]()).save(path, format="xgboost-json")
    assert path.read_text() == "old"
    assert [own.name for own in tmp_path.iterdir()] == ["model"]


def test_approximation_is_allowed_and_warned_of(models, tmp_path, caplog):
    hb.Booster(models["slope"]()).save(tmp_path / "model", format="xgboost-ubj", approximate=True)
    assert "XGBoost's format, approximated: sigmoid=0.7: XGBoost's has slope 1" in caplog.text
    assert hb.load(tmp_path / "model").objective.sigmoid == 1.0


def test_exact_files_come_without_a_warning(models, tmp_path, caplog):
    hb.Booster(models["float32"]()).save(tmp_path / "model", format="lightgbm", approximate=True)
    assert "approximated" not in caplog.text


@pytest.mark.parametrize("format", ["lightgbm", "python"])
def test_folder_that_is_not_there_is_an_error_that_names_it(format, models, tmp_path):
    with pytest.raises(OSError, match=r"cannot write the model .*give a file in a folder that exists"):
        hb.Booster(models["float32"]()).save(tmp_path / "absent" / "model", format=format)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_may_not_be_written_to_is_left_alone(models, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="cannot write the model"):
        hb.Booster(models["float32"]()).save(tmp_path / "model", format="c")


@pytest.mark.parametrize("module", ["onnx", "treelite"])
def test_missing_library_says_what_to_install(module, models, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConversionError, match=rf"need the package '{module}'.*pip install 'hornbeam\[convert\]'"):
        hb.Booster(models["float32"]()).save(tmp_path / "model", format=module)


def test_import_of_hornbeam_brings_in_no_converter():
    rooms = ("hornbeam.convert", "onnx", "treelite")
    code = f"import sys, hornbeam; print([name for name in sys.modules if name.startswith({rooms})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def objective_of(name: str) -> dict[str, object]:
    more = {
        "multiclass": {"num_class": 3},
        "multiclassova": {"num_class": 3, "sigmoid": 1.0},
        "binary": {"sigmoid": 1.0},
    }
    return {"name": name, **more.get(name, {})}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("format", ["lightgbm", "xgboost-json"])
def test_every_objective_is_written_exactly_or_as_one_of_the_same_link(format, name, models, tmp_path):
    several = name.startswith("multiclass")
    params = {"objective": name, **({"num_class": 3} if several else {})}
    model = replace(models["classes" if several else "float32"](), objective=objective_of(name), params=params)
    booster = hb.Booster(model)
    path = tmp_path / "model"
    if (format, name) in (("lightgbm", "hinge"), ("xgboost-json", "cross_entropy_lambda")):  # of links of their own
        with pytest.raises(ConversionError, match=f"cannot say this: predictions of objective '{name}'"):
            booster.save(path, format=format, approximate=True)
        return
    is_exact = name not in STAND_INS[format]
    if not is_exact:
        with pytest.raises(ConversionError, match=f"the objective '{name}', which .* does not have"):
            booster.save(path, format=format)
    booster.save(path, format=format, approximate=not is_exact)
    again = hb.load(path)
    rows = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    assert np.allclose(again.predict(rows), booster.predict(rows), rtol=1e-5)
    if is_exact or name == "multiclassova":
        of_labels = name == "multiclassova" and format == "xgboost-json"  # which XGBoost knows as labels of columns
        assert again.objective.name == ("binary" if of_labels else name)


@pytest.mark.parametrize("format", ["lightgbm", "xgboost-json"])
def test_names_that_the_library_does_not_take_are_replaced_if_allowed(format, models, tmp_path):
    model = replace(models["float32"](), feature_names=["a[1]", "b c", "d,e"])
    booster = hb.Booster(model)
    with pytest.raises(ConversionError, match=r"names of features with .* such as 'a\[1\]'"):
        booster.save(tmp_path / "model", format=format)
    booster.save(tmp_path / "model", format=format, approximate=True)
    assert hb.load(tmp_path / "model").feature_names[0] == "a_1_"


@pytest.mark.parametrize("format", ["lightgbm", "xgboost-ubj", "treelite"])
def test_levels_beyond_what_sets_hold_are_refused(format, models, tmp_path):
    if format in NEED:
        pytest.importorskip(NEED[format])
    model = models["integers"]()
    model.levels[0] = Levels((3, 0, 2**40, 5, 40, 1))
    with pytest.raises(ConversionError, match="level 1099511627776 of feature 'column0'; categories"):
        hb.Booster(model).save(tmp_path / "model", format=format, approximate=True)


def test_every_error_of_a_writer_is_one_line_of_ours(any_model, tmp_path):
    _, model = any_model
    messages = []
    for name in FORMATS:
        if name in NEED:
            pytest.importorskip(NEED[name])
        try:
            hb.Booster(model).save(tmp_path / "model", format=name)
        except HornbeamError as error:
            messages.append(str(error))
    assert not any("\n" in message for message in messages)


@pytest.mark.parametrize(("ending", "format"), [("onnx", "onnx"), ("c", "c"), ("PY", "python"), ("txt", "hornbeam")])
def test_the_name_of_a_file_says_its_format_where_it_has_one(models, tmp_path, ending, format):
    if format == "onnx":
        pytest.importorskip("onnx")
    booster = hb.Booster(models["slope"]())
    booster.save(tmp_path / f"model.{ending}")
    booster.save(tmp_path / "named", format=format)
    assert (tmp_path / f"model.{ending}").read_bytes() == (tmp_path / "named").read_bytes()


def test_a_file_of_onnx_is_said_to_be_one(models, tmp_path):
    pytest.importorskip("onnx")
    hb.Booster(models["slope"]()).save(tmp_path / "model.onnx")
    with pytest.raises(hb.ModelFormatError, match="is a model in ONNX, which is written and not read"):
        hb.load(tmp_path / "model.onnx")
