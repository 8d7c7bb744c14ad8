r"""Files that LightGBM reads, and that hold the model as it is besides: what `save_model` writes after a Dataset.

LightGBM's text has no categories of NaN, encodings or fingerprint, so that it alone would bring back another model.
LightGBM passes over what follows the parameters, and one line there holds Hornbeam's own file:

    end of parameters

    hornbeam:{"sha256": "0ef3...", "text": "{\"best_iteration\":0, ...", "category_columns": [3]}

    pandas_categorical:[[5, 10, 20]]

sha256 is that of the file without the line. Where it is another one, something has edited what LightGBM reads; then
that is the model, with a warning. category_columns, which Hornbeam's own file has no place for, is there where it is
not empty.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hornbeam.convert.lightgbm.reading import read as read_text
from hornbeam.convert.lightgbm.writing import write as write_text
from hornbeam.convert.seals import is_whole, say_alone, seal_of
from hornbeam.core.errors import ConversionError, ModelFormatError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import inform
from hornbeam.model.file import ModelData, model_from_bytes, model_to_bytes

AFTER, BEFORE = b"\nend of parameters\n\n", b"\nhornbeam:"

PLACE = "LightGBM model, hornbeam"
"""What messages call the line."""


def write(model: ModelData) -> bytes:
    """Return the bytes of a model's file; Hornbeam's alone, with a line in the log, where LightGBM cannot have it."""
    own = model_to_bytes(model)
    try:
        with default_mode():  # in another one, Python's conversion of numbers to text goes wrong
            text = write_text(model, True, inform)
    except ConversionError as error:
        say_alone("LightGBM", error)
        return own
    entry: dict[str, Any] = {"sha256": seal_of(text), "text": own.decode("ascii")}
    if model.category_columns:
        entry["category_columns"] = sorted(model.category_columns)
    begin, _, end = text.rpartition(AFTER)
    return begin + AFTER + BEFORE[1:] + json.dumps(entry).encode() + b"\n\n" + end


def read(data: bytes) -> ModelData:
    """Return the model that a file carries; it carries none, or was edited: that which LightGBM reads."""
    begin, mark, rest = data.rpartition(BEFORE)
    if not mark:
        return read_text(data)
    line, _, end = rest.partition(b"\n\n")
    try:
        entry = json.loads(line)
        own, seal = entry["text"].encode("ascii"), entry["sha256"]
        columns = frozenset(int(column) for column in entry.get("category_columns", ()))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ModelFormatError(f"{PLACE}: must be the text of a model and the SHA-256 of the other lines") from None
    if not is_whole(begin + b"\n" + end, seal, "LightGBM"):
        return read_text(data)
    return replace(model_from_bytes(own), category_columns=columns)
