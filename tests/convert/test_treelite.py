"""treelite: its predictor gives the same scores as Hornbeam, at the edges of every split."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.convert import treelite_model
from hornbeam.core.errors import ConversionError

treelite = pytest.importorskip("treelite")


def test_treelite_scores_have_the_same_bits(any_model, rows_of, table_of, expected):
    name, model = any_model
    if name == "encoded":
        with pytest.raises(ConversionError, match="'column0' is target encoded; formats 'c' and 'python' hold it"):
            treelite_model.write(model, True)
        return
    if name == "step":
        with pytest.raises(ConversionError, match="predictions of objective 'hinge', 1 where the score is above 0"):
            treelite_model.write(model, True)
        return
    if name == "columns":
        with pytest.raises(ConversionError, match="several outputs of objective 'poisson'"):
            treelite_model.write(model, True)
        return
    content = treelite_model.write(model, approximate=name in ("strings", "slope"))
    theirs = treelite.Model.deserialize_bytes(content)
    rows = rows_of(model)
    raw, predictions = expected(model, table_of(model, rows))
    scores = treelite.gtil.predict(theirs, rows, nthread=1, pred_margin=True).reshape(raw.shape)
    assert np.array_equal(scores, raw)
    is_rough = name == "slope" or model.objective["name"] == "multiclass"  # float32 in treelite
    tolerance = 1e-6 if is_rough else 1e-14
    made = treelite.gtil.predict(theirs, rows, nthread=1).reshape(raw.shape)
    assert np.allclose(made, predictions, rtol=tolerance, atol=0.0)
