"""The table of formats, for `hornbeam.model.formats`."""

from __future__ import annotations

from hornbeam.convert import onnx_model, treelite_model, unread
from hornbeam.convert.lightgbm import carrying
from hornbeam.convert.lightgbm import writing as lightgbm_writing
from hornbeam.convert.lightgbm.text import is_lightgbm
from hornbeam.convert.source import c, python
from hornbeam.convert.xgboost import reading as xgboost_reading
from hornbeam.convert.xgboost import writing as xgboost_writing
from hornbeam.convert.xgboost.document import is_json
from hornbeam.convert.xgboost.ubj import is_ubj
from hornbeam.model.formats import Format

FORMATS = {
    own.name: own
    for own in (
        Format("lightgbm", lightgbm_writing.write, is_lightgbm, carrying.read),
        Format("xgboost-json", xgboost_writing.write_json, is_json, xgboost_reading.read_json),
        Format("xgboost-ubj", xgboost_writing.write_ubj, is_ubj, xgboost_reading.read_ubj),
        Format("onnx", onnx_model.write),
        Format("treelite", treelite_model.write),
        Format("c", c.write),
        Format("python", python.write),
        *unread.FORMATS,
    )
}
