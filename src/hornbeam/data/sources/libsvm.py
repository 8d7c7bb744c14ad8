"""LibSVM (SVMlight) files, by scikit-learn: lines such as `1 qid:3 0:0.5 7:1.25 # comment`.

Feature k of a line is column k, counted from 0, as LightGBM and XGBoost have it: where a file counts from 1, column 0
is empty. The first number of a line is its label.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.data.sources.wanted_columns import Loaded, Wanted


def read_libsvm(source: Any, name: str, wanted: Wanted) -> Loaded:
    """Return a CSR matrix of SciPy with labels, and with queries where the first line has one."""
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError:
        raise DataError(
            f"reading {name!r} takes scikit-learn: pip install 'hornbeam[sklearn]', or pass a sparse matrix of SciPy"
        ) from None
    count = wanted.n_features
    try:
        table, label, qid = load_svmlight_file(source, zero_based=True, query_id=True)
        if isinstance(source, io.BytesIO):
            begin = source.getvalue()[:4096]
        else:
            with Path(source).open("rb") as file:
                begin = file.read(4096)
    except (ValueError, OSError, IndexError, OverflowError) as error:
        raise DataError(f"{name!r} cannot be read as LibSVM ({getattr(error, 'strerror', None) or error})") from None
    if count is not None and table.shape[1] > count:
        raise DataError(
            f"{name!r} has a feature {table.shape[1] - 1}, but the model was trained on {count}, numbered from 0; pass "
            "a file with the same features"
        )
    if count is not None and count > table.shape[1]:
        table.resize(table.shape[0], count)
    has_queries = re.match(rb"^\s*\S+\s+qid:", _without_comments(begin)) is not None
    return Loaded(table, {"label": label, **({"qid": qid} if has_queries else {})})


def _without_comments(begin: bytes) -> bytes:
    """Return the beginning of a file from its first line that holds a row."""
    lines = [line for line in begin.splitlines() if line.strip() and not line.lstrip().startswith(b"#")]
    return lines[0] if lines else b""
