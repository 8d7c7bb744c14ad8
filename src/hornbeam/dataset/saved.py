"""A Dataset as a file: arrays in a zip archive of NumPy's (.npz), and what they are in JSON beside them.

    facts        JSON: format, names, categorical features, data parameters, kind of the table
    table        the array; or data, indices, indptr and shape of a CSR matrix; or the bytes of an Arrow file
    label ...    the fields that there are

Bins are not kept: they follow from the table and the parameters. Nothing in the file is run when it is read.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.data.device_arrays import device_of, host_array
from hornbeam.data.fields import SETTABLE
from hornbeam.data.sources.frame import as_frame
from hornbeam.data.sources.text import has_pyarrow
from hornbeam.data.streams.bin_file import is_bin_file
from hornbeam.dataset.kept import read_kept

FORMAT = "hornbeam-dataset"


def write_saved(dataset: Any, path: str | os.PathLike[str]) -> None:
    """Write a Dataset to a file."""
    kind, arrays = _arrays_of(dataset.data)
    for name in SETTABLE:
        values = dataset.group if name == "group" else dataset.get_field(name)
        if values is not None:
            arrays[name] = values
    facts = {
        "format": FORMAT,
        "version": 1,
        "kind": kind,
        "feature_names": dataset.feature_names if dataset.has_names else None,
        "categorical_features": None if dataset._categorical is None else list(dataset._categorical),
        "params": dataset.get_params(),
    }
    arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    with Path(path).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _arrays_of(table: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a table, and the arrays that hold it."""
    if device_of(table, "data") is not None:
        table = host_array(table)
    if hasattr(table, "tocsr"):
        csr = table.tocsr()
        return "csr", {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
    frame = as_frame(table)
    if frame is not None:
        if not has_pyarrow():
            return "array", {"table": _numbers_of(frame)}
        import pyarrow as pa

        arrow = pa.table({name: frame[name].to_arrow() for name in frame.columns})  # no index of pandas among them
        buffer = io.BytesIO()
        with pa.ipc.new_file(buffer, arrow.schema) as writer:
            writer.write_table(arrow)
        return "arrow", {"table": np.frombuffer(buffer.getvalue(), np.uint8)}
    array = np.asarray(table)
    if array.dtype.kind not in "fiub":
        raise DataError(f"a Dataset of {array.dtype} cannot be saved; make it of a frame, or of numbers")
    return "array", {"table": array}


def _numbers_of(frame: Any) -> Any:
    """Return the numbers of a frame: without pyarrow no frame of another kind can be saved."""
    from narwhals import Boolean

    odd = [name for name in frame.columns if not (frame[name].dtype.is_numeric() or frame[name].dtype == Boolean)]
    if odd:
        raise DataError(
            f"column {odd[0]!r} has other than numbers, and is saved by pyarrow: pip install 'hornbeam[files]'"
        )
    return np.column_stack([np.asarray(frame[name].to_numpy(), np.float64) for name in frame.columns])


def read_saved(path: Any) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    """Return table, fields and the facts of a file that `save_binary` wrote; None: it is no such file."""
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file() or not zipfile.is_zipfile(path):
        return None
    with np.load(path, allow_pickle=False) as file:
        if "facts" not in file.files:
            return None
        try:
            facts = json.loads(file["facts"].tobytes())
            if facts["format"] != FORMAT or facts["version"] != 1:
                raise DataError(f"{path}: a {facts['format']} of version {facts['version']} is not read; save it anew")
            fields = {name: file[name] for name in SETTABLE if name in file.files}
            return _table_of(facts["kind"], file), fields, facts
        except (KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} is damaged ({error}); save the Dataset anew") from None


def with_saved(
    data: Any,
    fields: dict[str, Any],
    params: Mapping[str, Any] | None,
    feature_names: Any,
    categorical_features: Any,
) -> tuple[Any, dict[str, Any], Mapping[str, Any] | None, Any, Any]:
    """Return the arguments of a Dataset, with what a file of `save_binary` holds where they leave it open.

    A file of bins (kept.py), which is that of a stream, is one too.
    """
    saved = read_kept(data) if is_bin_file(data) else read_saved(data)
    if saved is None:
        return data, fields, params, feature_names, categorical_features
    table, kept, facts = saved
    fields = {name: kept.get(name) if value is None else value for name, value in fields.items()}
    if feature_names is None or isinstance(feature_names, str):
        feature_names = facts["feature_names"]
    if categorical_features is None or isinstance(categorical_features, str):
        categorical_features = facts["categorical_features"]
    return table, fields, {**facts["params"], **(params or {})}, feature_names, categorical_features


def _table_of(kind: str, file: Any) -> Any:
    if kind == "csr":
        from scipy import sparse

        return sparse.csr_array((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
    if kind == "arrow":
        import pyarrow as pa

        return pa.ipc.open_file(pa.py_buffer(file["table"].tobytes())).read_all()
    return file["table"]
