"""What has to be read first: files, streams, lazy frames and tensors become tables that a reader knows.

A reader (opening.py) knows tables in memory. What becomes such a table by a call of its library has a loader here:

    files             paths, patterns, folders and open files: Parquet, CSV, Arrow, LibSVM     pyarrow Table, SciPy CSR
    parts             objects of `Sequence`, lists of arrays                                   NumPy
    Dask              computed, with a line of information                                    pandas, NumPy
    lazy frames       polars' LazyFrame, pyarrow's Dataset, what narwhals calls lazy           polars, pyarrow
    Arrow streams     RecordBatchReader, anything with `__arrow_c_stream__`                    pyarrow Table
    tensors           of PyTorch, JAX and whatever else speaks DLPack, in host memory          NumPy, not copied
    half sparse       pandas frames of some sparse columns, or whose gaps are no zeros         pandas, dense

Where only some columns are wanted, those of a model for example, they are chosen by name, and a line of information
says which are left out. (Tables that the user holds are taken as they are: their columns have to be the model's.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.core.log import inform
from hornbeam.data.device_arrays import device_of, from_tensor
from hornbeam.data.sources.files import holds_files, read_files
from hornbeam.data.sources.sequences import load_parts
from hornbeam.data.sources.sparse_table import as_dense
from hornbeam.data.sources.wanted_columns import Loaded, Wanted

Loader = Callable[[Any, str, Wanted], "Loaded | None"]


def load(data: Any, name: str = "data", wanted: Wanted | None = None) -> Loaded | None:
    """Read what is no table yet; None: the data are a table already, or nothing that is known.

    Parameters
    ----------
    data
        Whatever was given.
    name
        What error messages call it.
    wanted
        Which columns; None: all.
    """
    if isinstance(data, np.ndarray):
        return None
    for loader in LOADERS:
        loaded = loader(data, name, wanted or Wanted())
        if loaded is not None:
            return loaded
    return None


def load_table(data: Any, name: str = "data", wanted: Wanted | None = None) -> Any:
    """Return a table: the data where they are one, else what was read of them."""
    loaded = load(data, name, wanted)
    return data if loaded is None else loaded.table


def load_files(data: Any, name: str, wanted: Wanted) -> Loaded | None:
    """Read the files that a path, a pattern, a list of paths or an open file names."""
    return read_files(data, wanted) if holds_files(data) else None


def load_dask(data: Any, name: str, wanted: Wanted) -> Loaded | None:
    """Compute a collection of Dask; it is brought into the memory of this process."""
    if not hasattr(type(data), "__dask_graph__") or data.__dask_graph__() is None:  # None: xarray's in memory
        return None
    if hasattr(type(data), "columns"):
        chosen = wanted.choose([str(column) for column in data.columns], name)
        data = data if chosen is None else data[chosen]
    inform(f"{name} is a collection of Dask ({type(data).__name__}): it is computed, and held in this process")
    return Loaded(data.compute())


def load_lazy(data: Any, name: str, wanted: Wanted) -> Loaded | None:
    """Collect a lazy frame: of polars, of pyarrow's datasets, or of another library that narwhals knows."""
    datasets = sys.modules.get("pyarrow.dataset")
    if datasets is not None and isinstance(data, datasets.Dataset):
        chosen = wanted.choose(data.schema.names, name)
        return Loaded(data.to_table(columns=chosen))
    if datasets is not None and isinstance(data, datasets.Scanner):
        return wanted.chosen(Loaded(data.to_table()), name)
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(data, polars.LazyFrame):
        chosen = wanted.choose(data.collect_schema().names(), name)
        return Loaded((data if chosen is None else data.select(chosen)).collect())
    return None


def load_stream(data: Any, name: str, wanted: Wanted) -> Loaded | None:
    """Read an Arrow stream to its end; a frame that can be one is none."""
    kind = type(data)
    if not (hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")) or hasattr(kind, "columns"):
        return None
    if hasattr(kind, "__array__") or hasattr(kind, "to_batches"):  # a column, and pyarrow's own tables
        return None
    try:
        import pyarrow as pa
    except ImportError:
        raise DataError(f"{name} is an Arrow stream, and reading it takes pyarrow: pip install pyarrow") from None
    try:
        table = data.read_all() if hasattr(kind, "read_all") else pa.table(data)
    except (pa.ArrowException, ValueError, TypeError, OSError) as error:
        raise DataError(f"{name} ({kind.__name__}) cannot be read as an Arrow stream of a table ({error})") from None
    if table.num_rows == 0:
        raise DataError(f"{name} ({kind.__name__}) is a stream without rows; a stream is read once: make a new one")
    return wanted.chosen(Loaded(table), name)


def load_dlpack(data: Any, name: str, wanted: Wanted) -> Loaded | None:
    """Take a tensor in host memory as a NumPy array of the same memory."""
    if not hasattr(type(data), "__dlpack__") or hasattr(type(data), "columns") or device_of(data, name) is not None:
        return None
    return Loaded(from_tensor(data, name))


def load_half_sparse(data: Any, name: str, wanted: Wanted) -> Loaded | None:
    """Make all columns of a pandas frame dense, unless they are sparse alike."""
    dense = as_dense(data)
    return None if dense is None else Loaded(dense)


LOADERS: tuple[Loader, ...] = (
    load_files, load_parts, load_dask, load_lazy, load_stream, load_dlpack, load_half_sparse,
)  # fmt: skip
"""In the order in which they are asked."""
