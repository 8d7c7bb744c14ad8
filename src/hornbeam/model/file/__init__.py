"""Models as bytes and files: canonical JSON out, checked before use in.

    model_data.py   what a model file holds
    writing.py      model -> bytes -> file
    parsing.py      bytes -> JSON, tree by tree
    reading.py      JSON -> model, checked
    tree_checks.py  what makes arrays a tree

The format is described in `writing.py`, and how a hostile file is kept from taking memory in `parsing.py`.
"""

from __future__ import annotations

from hornbeam.model.file.model_data import FORMAT_VERSION, ModelData
from hornbeam.model.file.reading import check_expected, model_from_bytes, read_bytes, read_model
from hornbeam.model.file.writing import fingerprint, model_to_bytes, write_atomically

__all__ = [
    "FORMAT_VERSION",
    "ModelData",
    "check_expected",
    "fingerprint",
    "model_from_bytes",
    "model_to_bytes",
    "read_bytes",
    "read_model",
    "write_atomically",
]
