"""Data of a Dask cluster: collections, or partitions one by one, as parts of a data set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hornbeam.core.errors import CollectiveError, DataError
from hornbeam.data.fields import ROW_FIELDS
from hornbeam.distributed.dask.packages import require_dask

LOOK_SECONDS = 1.0
"""The client looks this often whether the workers are still there."""

NO_WORKERS_SECONDS = 60.0
"""So long it waits for a first one, or for one that comes back."""

FIELDS = ("label", "weight", "group", "qid", "init_score", *ROW_FIELDS)


class DaskDataset:
    """A table in the partitions of a Dask collection, with labels and weights; see `hornbeam.Dataset`.

    Nothing is read here. Partitions are never put together: each worker bins those that it holds, one after the other.

    Parameters
    ----------
    client
        `distributed.Client` of the cluster.
    data
        Dask array (rows x features) or dataframe; or a list of `dask.delayed` objects or futures, each a table as
        `hornbeam.Dataset` takes it. Partitions may be uneven or empty. Their order is the order of the rows.
    label, weight, qid, init_score, label_lower_bound, label_upper_bound, position
        Collections with the partitions of `data`, lists of as many delayed objects or futures, or the name of a column
        of a dataframe; None: there is none.
    group
        The same, with the sizes of each partition's queries. The rows of a query lie in one partition.
    reference
        Training set whose bins a validation set takes.
    options
        `feature_names`, `categorical_features`, `feature_weights` and data parameters, as for `hornbeam.Dataset`.
    """

    is_xgboosts = False  # as of `hornbeam.Dataset`
    is_estimators = False

    def __init__(
        self,
        client: Any,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        group: Any = None,
        qid: Any = None,
        init_score: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        position: Any = None,
        reference: DaskDataset | None = None,
        **options: Any,
    ) -> None:
        require_dask()
        self.client, self.reference, self.options = client, reference, options
        tables = partitions_of(data, "data")
        if tables is None or isinstance(tables, str):
            raise DataError("data has no partitions; pass a Dask array or dataframe, or a list of delayed tables")
        values = label, weight, group, qid, init_score, label_lower_bound, label_upper_bound, position
        given = dict(zip(FIELDS, values, strict=True))
        fields = {name: partitions_of(value, name) for name, value in given.items() if value is not None}
        for name, parts in fields.items():
            if not isinstance(parts, str) and parts is not None and len(parts) != len(tables):
                raise DataError(
                    f"{name} has {len(parts)} partitions and data {len(tables)}; give them the same ones, by rechunk "
                    "or repartition"
                )
        self.partitions: list[dict[str, Any]] = [
            {"data": table, **{name: parts if isinstance(parts, str) else parts[i] for name, parts in fields.items()}}  # type: ignore[index]
            for i, table in enumerate(tables)
        ]

    def compute(self) -> list[Any]:
        """Let the cluster make the partitions, and return a future of each."""
        from dask import delayed

        futures = self.client.compute([delayed(dict)(part) for part in self.partitions], sync=False)
        return wait_for(self.client, list(futures))


def wait_for(client: Any, futures: list[Any]) -> list[Any]:
    """Wait for what workers make, and return it; raises what one of them has raised, or that there are none."""
    from distributed import wait

    last_seen = time.monotonic()
    while any(not future.done() for future in futures):
        with suppress(TimeoutError), client.as_current():
            wait(futures, timeout=LOOK_SECONDS)
        if client.nthreads():
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > NO_WORKERS_SECONDS:
            client.cancel(futures)
            raise CollectiveError(f"the cluster has had no worker for {NO_WORKERS_SECONDS:g} s; start some")
    for future in futures:
        if future.status == "error":
            future.result()
    return futures


def partitions_of(value: Any, what: str) -> list[Any] | str | None:
    """Return the partitions of a collection as delayed objects or futures; the name of a column as it is."""
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "to_delayed"):
        if getattr(value, "ndim", 1) == 2 and hasattr(value, "rechunk"):
            value = value.rechunk({1: -1})  # all features of a row in one block
        parts = value.to_delayed()
        return list(parts.ravel()) if hasattr(parts, "ravel") else list(parts)
    if isinstance(value, Sequence) and all(hasattr(part, "key") for part in value):
        return list(value)
    raise DataError(
        f"{what} is a {type(value).__name__}; pass a Dask array or dataframe, or a list of delayed objects or futures "
        "(data of one process: hornbeam.Dataset and hornbeam.train)"
    )
