"""Tables side by side: the columns of one after those of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.data.sources.frame import as_frame


def side_by_side(first: Any, second: Any) -> Any:
    """Return a table with the columns of two, which have the same number of rows.

    Sparse matrices stay sparse, arrays stay arrays, and frames stay frames, whose names have to differ.
    """
    if hasattr(first, "tocsr") or hasattr(second, "tocsr"):
        from scipy import sparse

        if as_frame(first) is not None or as_frame(second) is not None:
            raise DataError("a sparse matrix and a frame cannot stand side by side; make both one of these kinds")
        return sparse.hstack([sparse.csr_array(first), sparse.csr_array(second)], format="csr")
    left, right = as_frame(first), as_frame(second)
    if left is None and right is None:
        return np.hstack([np.asarray(first), np.asarray(second)])
    if left is None or right is None:
        raise DataError("an array and a frame cannot stand side by side; make both one of these kinds")
    if type(left.to_native()) is not type(right.to_native()):
        raise DataError("frames of two libraries cannot stand side by side; make both of the same")
    import narwhals as nw

    return nw.concat([left, right], how="horizontal").to_native()
