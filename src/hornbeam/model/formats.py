"""Formats of model files: which there are, and which one a file has.

Hornbeam's is in file/. Those of other libraries are in the room `convert` (rooms.py), which is opened when a format is
asked for that is not Hornbeam's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.model.file import ModelData, check_expected, model_from_bytes, model_to_bytes, read_bytes
from hornbeam.model.file.model_data import FORMAT_NAME
from hornbeam.model.rooms import room
from hornbeam.params.checks import did_you_mean

HORNBEAM = "hornbeam"

BY_ENDING = {".onnx": "onnx", ".c": "c", ".py": "python"}
"""Formats by what names of files end with, where nobody means another one. Users of LightGBM and XGBoost save to names
that end in .txt, .json and .ubj, and load what they have saved: those have Hornbeam's format, which loses nothing.
"""

_IS_HORNBEAM = re.compile(rb'"format"\s*:\s*"' + FORMAT_NAME.encode() + b'"')
"""What no JSON string can hold: there, quotes have a backslash."""

_IS_BINARY = re.compile(rb"\{[^\s\"}]")
"""How an object begins in UBJ, whose strings may hold a file of Hornbeam's."""


@dataclass(frozen=True)
class Format:
    """One format of model files.

    Attributes
    ----------
    name
        As in `Booster.save(format=)`.
    write
        Function(model, approximate) -> bytes of a file; None: it is only read.
    recognises
        Function(bytes of a file) -> whether it has this format; None: it is only written.
    read
        Function(bytes of a file) -> model; raises ModelFormatError, and nothing else.
    """

    name: str
    write: Callable[[ModelData, bool], bytes] | None = None
    recognises: Callable[[bytes], bool] | None = None
    read: Callable[[bytes], ModelData] | None = None


def _formats() -> Mapping[str, Format]:
    """Return the formats of other libraries by name."""
    formats: Mapping[str, Format] = room("convert").FORMATS
    return formats


def format_of_name(path: str | os.PathLike[str]) -> str:
    """Return the format that the name of a file asks for."""
    return BY_ENDING.get(Path(str(path)).suffix.lower(), HORNBEAM)


def write_as(model: ModelData, format: str, approximate: bool = False) -> bytes:
    """Return the bytes of a model's file in a format.

    Raises ConversionError for what the format cannot say, unless it can be approximated and `approximate` is set.
    """
    if format == HORNBEAM:
        return model_to_bytes(model)
    writers = {name: own.write for name, own in _formats().items() if own.write is not None}
    if format not in writers:
        names = [HORNBEAM, *writers]
        raise ParameterError(
            f"format={format!r}: must be one of {', '.join(map(repr, names))}{did_you_mean(format, names)}"
        )
    with default_mode():  # in another one, Python's conversion of numbers to text goes wrong
        return writers[format](model, approximate)


def model_of(data: bytes, fingerprint: str | None = None) -> ModelData:
    """Rebuild a model from the bytes of its file, whose content says which format it has; or raise ModelFormatError.

    fingerprint  what the model must have; None: any
    """
    own = _format_of(data)
    if own is None or own.read is None:
        return model_from_bytes(data, fingerprint)
    with default_mode():
        model = own.read(data)
    check_expected(model, fingerprint)
    return model


def _format_of(data: bytes) -> Format | None:
    """Return the format that the bytes of a file have; None: Hornbeam's, or none at all."""
    if _IS_HORNBEAM.search(data) is not None and _IS_BINARY.match(data) is None:
        return None
    read = (own for own in _formats().values() if own.recognises is not None and own.read is not None)
    return next((own for own in read if own.recognises is not None and own.recognises(data)), None)


def is_of_dmatrix(data: bytes, model: ModelData) -> bool:
    """Say whether a file is one of XGBoost's, or of a model that was trained on a DMatrix.

    model  what `model_of` makes of it
    """
    own = _format_of(data)
    return not model.stops_at_best or (own is not None and own.name.startswith("xgboost"))


def read_file(path: str | os.PathLike[str] | bytes | bytearray, fingerprint: str | None = None) -> ModelData:
    """Read a model file of any format that is read, or the bytes of one; ModelFormatError says what is wrong.

    fingerprint  what the model must have; None: any
    """
    return read_with_bytes(path, fingerprint)[0]


def read_with_bytes(
    path: str | os.PathLike[str] | bytes | bytearray, fingerprint: str | None = None
) -> tuple[ModelData, bytes]:
    """Return what `read_file` does, and the bytes of the file."""
    if isinstance(path, (bytes, bytearray)):
        return model_of(bytes(path), fingerprint), bytes(path)
    data = read_bytes(path)
    try:
        return model_of(data, fingerprint), data
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None
