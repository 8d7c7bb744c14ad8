r"""Files that XGBoost reads, and that hold the model as it is besides: what `save_model` writes after a DMatrix.

XGBoost computes in float32 and keeps no counts of rows, so that its format alone would bring back another model. It
passes over keys of a document that it does not know, and one of them holds Hornbeam's own file:

    {"hornbeam":{"sha256":"0ef3...","text":"{\"best_iteration\":0, ..."},"learner":{...},"version":[3,1,0]}

sha256 is that of all that follows the entry. Where it is another one, something has edited the part that XGBoost reads;
then that part is the model, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hornbeam.convert.seals import is_whole, say_alone, seal_of
from hornbeam.convert.xgboost.document import child, inner, to_json
from hornbeam.convert.xgboost.ubj import encode
from hornbeam.convert.xgboost.writing import make_document
from hornbeam.core.errors import ConversionError, ModelFormatError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import inform
from hornbeam.model.file import ModelData, model_from_bytes, model_to_bytes

KEY = "hornbeam"

PLACE = f"XGBoost model, {KEY}"
"""What messages call the entry."""

ENCODERS: Mapping[str, Callable[[Any], bytes]] = {"json": to_json, "ubj": encode}


def write(model: ModelData, every: ModelData, kind: str, attributes: Mapping[str, str]) -> bytes:
    """Return the bytes of a file of a model; Hornbeam's alone, with a line in the log, where XGBoost cannot have it.

    every       the model of which XGBoost is to use all iterations
    kind        "json" or "ubj"
    attributes  what `Booster.attr` knows, which XGBoost keeps beside the model
    """
    own, to_bytes = model_to_bytes(model), ENCODERS[kind]
    try:
        with default_mode():  # in another one, Python's conversion of numbers to text goes wrong
            document = make_document(every, True, inform)
            document["learner"]["attributes"] = _with_best(attributes, model)
            rest = _after(to_bytes, {}, to_bytes(document))
    except ConversionError as error:
        say_alone("XGBoost", error)
        return own
    entry = {KEY: {"sha256": seal_of(rest), "text": own.decode("ascii")}}
    return to_bytes(entry)[:-1] + rest


def read(document: Any, data: bytes, kind: str) -> ModelData | None:
    """Return the model that a document carries; None: it carries none, or something has edited the rest of it."""
    if type(document) is not dict or KEY not in document:
        return None
    entry = inner(document, KEY, "XGBoost model")
    text, seal = (child(entry, name, PLACE) for name in ("text", "sha256"))
    if type(text) is not str or type(seal) is not str or not text.isascii():
        raise ModelFormatError(f"{PLACE}: must be the text of a model and the SHA-256 of what follows")
    rest = _after(ENCODERS[kind], {KEY: entry}, data)
    return model_from_bytes(text.encode("ascii")) if is_whole(rest, seal, "XGBoost") else None


def _after(to_bytes: Callable[[Any], bytes], first: dict[str, Any], data: bytes) -> bytes:
    """Return what follows the first entries of an object in its bytes, with its comma in JSON; b"": others begin it."""
    begin = to_bytes(first)[:-1]
    if not data.startswith(begin):
        return b""
    rest = data[len(begin) :]
    return b"," + rest if not first and to_bytes is to_json else rest


def _with_best(attributes: Mapping[str, str], model: ModelData) -> dict[str, str]:
    """Return attributes with the best iteration as files count them, which have one tree an output in each."""
    if model.best_iteration == 0:
        return dict(attributes)
    n_parallel = model.trees_per_iteration // model.n_outputs
    return {**attributes, "best_iteration": str(model.best_iteration * n_parallel - 1)}
