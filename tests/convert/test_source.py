"""C and Python: the same bits as Hornbeam, at the edges of every split."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.convert.outgoing import Outgoing
from hornbeam.convert.source import c, links, python
from hornbeam.core import numerics
from hornbeam.core.errors import ConversionError
from hornbeam.data.levels import Levels


def test_c_predicts_the_same_bits(any_model, rows_of, table_of, expected, compiled, call_c):
    _, model = any_model
    rows = rows_of(model)
    library = compiled(c.write(model, False))
    raw, predictions = expected(model, table_of(model, rows))
    assert np.array_equal(call_c(library.hornbeam_predict_raw, rows, model.n_outputs), raw)
    assert np.array_equal(call_c(library.hornbeam_predict, rows, model.n_outputs), predictions)


def test_python_predicts_the_same_bits(any_model, rows_of, table_of, expected):
    _, model = any_model
    rows = rows_of(model)
    module = {}
    exec(compile(python.write(model, False).decode(), "model.py", "exec"), module)
    raw, predictions = expected(model, table_of(model, rows))
    table = table_of(model, rows)
    listed = table.to_numpy(object).tolist() if hasattr(table, "to_numpy") else rows.tolist()
    assert np.array_equal([module["predict_raw"](row) for row in listed], raw)
    assert np.array_equal(np.reshape([module["predict"](row) for row in listed], predictions.shape), predictions)


def test_c_has_numbers_for_strings(models, compiled):
    model = models["strings"]()
    library = compiled(c.write(model, False))
    library.hornbeam_level.restype = ctypes.c_double
    library.hornbeam_feature_name.restype = ctypes.c_char_p
    column = Outgoing(model).columns[1]
    for number, word in zip(column.numbers, column.levels.values, strict=True):
        assert library.hornbeam_level(1, word.encode()) == number
    assert library.hornbeam_level(1, b"unseen") == len(column.levels)
    assert math.isnan(library.hornbeam_level(1, None))
    assert library.hornbeam_feature_name(1) == b"column1"


def test_two_models_fit_in_one_program(models, compiled, call_c):
    library = compiled(c.write(models["binary"](), False), "-DMODEL_NAME=churn")
    assert call_c(library.churn_predict, np.zeros((1, 3)), 1).shape == (1, 1)


def test_c_allocates_nothing_and_needs_no_library(models, tmp_path):
    source = c.write(models["classes"](), False).decode()
    assert "alloc" not in source.replace("Nothing is allocated", "")
    assert "#include <stdlib.h>" not in source


def test_fast_math_does_not_compile(models, compiled):
    with pytest.raises(AssertionError, match="NaN is a missing value"):
        compiled(c.write(models["numbers"](), False), "-ffast-math")


def test_source_is_ascii_whatever_names_hold(models, compiled):
    model = models["integers"]()
    model.feature_names = ['*/ #error "', "new\nline\\", "grün ??/"]
    library = compiled(c.write(model, False))
    library.hornbeam_feature_name.restype = ctypes.c_char_p
    assert [library.hornbeam_feature_name(i).decode() for i in range(3)] == model.feature_names
    module = {}
    exec(python.write(model, False).decode("ascii"), module)
    assert module["FEATURES"] == model.feature_names


def test_exp_of_python_has_the_bits_of_the_definition():
    x = np.concatenate([np.linspace(-800, 800, 4001), np.random.default_rng(0).standard_normal(2000)])
    assert [links.exp(value) for value in x.tolist()] == numerics.exp(x).tolist()


def test_softplus_of_python_has_the_bits_of_the_definition():
    x = np.concatenate([np.linspace(-800, 800, 4001), np.random.default_rng(0).standard_normal(2000) * 20.0])
    assert links.softplus(x.tolist(), 1.0) == numerics.softplus(x).tolist()
    u = np.linspace(1.0, 2.0, 4001)
    assert [links.log(value) for value in u.tolist()] == numerics.log(u).tolist()


def test_python_takes_only_rows_of_the_right_length(models):
    module = {}
    exec(python.write(models["numbers"](), False).decode(), module)
    with pytest.raises(ValueError, match="a row has 2 values, the model has 3 features"):
        module["predict"]([1.0, 2.0])


def test_c_refuses_levels_that_no_double_holds(models):
    model = models["integers"]()
    model.levels[0] = Levels((3, 0, 2**53 + 1, 5, 40, 1))
    with pytest.raises(ConversionError, match=r"C cannot say this: level 9007199254740993 .* format 'python'"):
        c.write(model, False)


def test_c_refuses_a_nul_in_a_level(models):
    model = models["strings"]()
    model.levels[1] = Levels(("red", "b\0lue", "c", "d", "e", "f"))
    with pytest.raises(ConversionError, match="has a level with a NUL in it"):
        c.write(model, False)


def test_halves_of_characters_are_refused(models):
    model = models["numbers"]()
    model.feature_names = ["a", "b", "\ud800"]
    with pytest.raises(ConversionError, match="is no Unicode text; rename it"):
        hb.Booster(model).save("never", format="c")
