"""Exchange: models in and out of other libraries.

    formats            the table of formats, `FORMATS`, which `model/formats.py` looks at
    unread             files that are not read, and what to do instead
    exactness          what a format cannot say: an error, or a warning
    foreign            trees and models as readers find them -> Hornbeam's
    copies             trees in which a node of another tree may occur several times
    zeros              splits that read zeros as missing, as splits that do not
    missing_levels     sets that hold missing values, as sets that do not
    float32            thresholds of libraries that compare float32
    json_text          JSON text of other libraries -> document
    extras             libraries that are imported when they are needed
    outgoing           what all writers need of a model
    lightgbm/          text, in and out
    xgboost/           JSON and UBJ, in and out
    onnx_model         ONNX, out
    treelite_model     treelite, out
    source/            C99 and Python, out

A reader takes bytes and returns `ModelData`; a writer takes `ModelData` and returns bytes. Both work on the model
alone: no device, no data, no training. docs/exchange.md has what each format can say.
"""

from __future__ import annotations

from hornbeam.convert.formats import FORMATS

__all__ = ["FORMATS"]
