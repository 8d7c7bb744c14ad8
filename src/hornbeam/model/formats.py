"""Formats of model files: which there are, and which one a file has.

Hornbeam's is in file/. Those of other libraries are in `hornbeam.convert`, which stands above this package and enters
them here (`register`). `_formats` imports it by name when a format is asked for that is not Hornbeam's: this is the one
place where `model` knows of `convert`, and `import hornbeam` brings in nothing of it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.model.file import ModelData, model_from_bytes, model_to_bytes
from hornbeam.model.file.model_data import FORMAT_NAME
from hornbeam.params.checks import did_you_mean

CONVERTERS = "hornbeam.convert.formats"
"""The module that registers the formats of other libraries when it is imported."""

HORNBEAM = "hornbeam"


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


_REGISTERED: dict[str, Format] = {}


def register(format: Format) -> None:
    """Enter a format; one that is there already is replaced."""
    _REGISTERED[format.name] = format


def _formats() -> Mapping[str, Format]:
    """Return the formats of other libraries by name."""
    importlib.import_module(CONVERTERS)
    return _REGISTERED


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
    return writers[format](model, approximate)


def model_of(data: bytes) -> ModelData:
    """Rebuild a model from the bytes of its file, whose content says which format it has; or raise ModelFormatError."""
    if FORMAT_NAME.encode() not in data:
        for own in _formats().values():
            if own.recognises is not None and own.read is not None and own.recognises(data):
                return own.read(data)
    return model_from_bytes(data)


def read_file(path: str | os.PathLike[str]) -> ModelData:
    """Read a model file of any format that is read; ModelFormatError names the file and what is wrong."""
    data = Path(path).read_bytes()
    try:
        return model_of(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None
