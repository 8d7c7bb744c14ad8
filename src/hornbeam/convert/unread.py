"""Files that users have and Hornbeam does not read: recognised by how they begin, to say what to do instead."""

from __future__ import annotations

from functools import partial

from hornbeam.model.file import ModelData
from hornbeam.model.file.tree_checks import fail
from hornbeam.model.formats import Format

BEGINNINGS = {
    "xgboost-binary": (
        (b"binf", b"bs64"),
        "is in XGBoost's old binary format; load it with an XGBoost before 3.1 and save it as .json or .ubj",
    ),
    "catboost": ((b"CBM1",), "is a model of CatBoost, which is not read; LightGBM's and XGBoost's are"),
    "pickle": (
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        "is a pickle, which is not read: it could run any code; unpickle it with the library that made it, and save "
        "the model with booster.save_model(path)",
    ),
    "zip": ((b"PK\x03\x04", b"\x1f\x8b"), "is an archive; unpack it first"),
}
"""By kind: how files begin, and what is said of them."""


def _begins(beginnings: tuple[bytes, ...], data: bytes) -> bool:
    return data.startswith(beginnings)


def _refuse(message: str, data: bytes) -> ModelData:
    fail("model", f"the file {message}")


def _is_onnx(data: bytes) -> bool:
    """Say whether bytes are an ONNX model with trees: its first field is a version, and it names its operators."""
    return data.startswith(b"\x08") and b"ai.onnx.ml" in data


FORMATS = (
    *(
        Format(name, recognises=partial(_begins, beginnings), read=partial(_refuse, message))
        for name, (beginnings, message) in BEGINNINGS.items()
    ),
    Format(
        "onnx model",
        recognises=_is_onnx,
        read=partial(_refuse, "is a model in ONNX, which is written and not read; keep the model that it was made of"),
    ),
)
