"""A Dataset of a stream as a file: bins, labels and everything else that trainings need but the values of features.

`save_binary` writes it, and `Dataset(path)` opens it: bins are mapped, not read, so many processes share one copy.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.data.binning import BinMapper, BinnedData, BinParams
from hornbeam.data.fields import SETTABLE
from hornbeam.data.levels import Levels
from hornbeam.data.streams.bin_file import BinFile, BinWriter, open_bins
from hornbeam.data.streams.table import UnheldTable
from hornbeam.data.target_encoding import EncodedLevels

VERSION = 1
BLOCK_BYTES = 16 << 20
"""Bins that are copied at a time."""


class KeptTable(UnheldTable):
    """The table of a file that was kept: no values, but their bins.

    file    bins, labels, ...
    levels  of categorical features
    """

    has_types: ClassVar[bool] = False
    why = "a file of bins holds no values of features"

    def __init__(self, file: BinFile) -> None:
        facts = file.facts
        super().__init__(
            (len(file.bins), facts["n_features"]), np.float64, "data", facts["names"], facts["level_columns"]
        )
        self.file = file
        self.has_types = facts["has_types"]  # type: ignore[misc]
        levels = [None if own is None else _levels_of(own) for own in facts["levels"] or []]
        self.levels = levels or None

    @property
    def bin_params(self) -> BinParams:
        """The data parameters that the bins were made with."""
        kept = dict(self.file.facts["bin_params"])
        by_feature = kept["max_bin_by_feature"]
        return BinParams(**{**kept, "max_bin_by_feature": None if by_feature is None else tuple(by_feature)})

    def binned(self) -> BinnedData:
        """Return the bins."""
        arrays, facts = self.file.arrays, self.file.facts
        bounds = np.split(arrays["bounds"], np.cumsum(arrays["n_bounds"])[:-1])
        n_levels = {int(feature): n for feature, n in facts["n_levels"].items()}
        mapper = BinMapper(tuple(bounds), arrays["has_missing"], facts["use_missing"], n_levels)
        return BinnedData(mapper, self.file)

    def binned_as(self, reference: Any) -> BinnedData:
        """Return the bins for a validation set, if they are those of a reference, a Dataset that is binned."""
        own = self.binned()
        mine, other = own.mapper, reference.mapper
        same = (
            len(mine.upper_bounds) == len(other.upper_bounds)
            and all(map(np.array_equal, mine.upper_bounds, other.upper_bounds))
            and np.array_equal(mine.has_missing, other.has_missing)
            and mine.n_levels == other.n_levels
            and _facts_of(self.levels) == _facts_of(reference.levels)
        )
        if not same:
            raise DataError(
                f"{self.file.path} has other bins than the reference Dataset; make a Dataset of the stream with "
                "reference=, and keep that"
            )
        return BinnedData(other, self.file)


def read_kept(path: str | os.PathLike[str]) -> tuple[KeptTable, dict[str, Any], dict[str, Any]]:
    """Return table, fields and facts of a file of bins, which is verified; DataError: it is damaged."""
    file = open_bins(path)
    if file.facts.get("version") != VERSION:
        raise DataError(f"{path}: version {file.facts.get('version')!r} of the file is not read; write it anew")
    fields = {name: file.arrays.pop(name) for name in SETTABLE if name in file.arrays}
    return KeptTable(file), fields, file.facts


def write_kept(dataset: Any, path: str | os.PathLike[str]) -> BinFile:
    """Write a Dataset to a file of bins, which has its name only when it is whole."""
    binned: BinnedData = dataset.binned
    mapper, bins, where = binned.mapper, binned.bins, Path(path).absolute()
    arrays: dict[str, NDArray[Any]] = {
        "bounds": np.concatenate(mapper.upper_bounds),
        "n_bounds": mapper.n_value_bins,
        "has_missing": mapper.has_missing,
    }
    for name in SETTABLE:
        values = dataset.group if name == "group" else dataset.get_field(name)
        if values is not None:
            arrays[name] = values
    reader = dataset.reader
    facts = {
        "version": VERSION,
        "n_features": dataset.n_features,
        "names": reader.names,
        "level_columns": list(map(int, reader.level_columns)),
        "has_types": bool(reader.has_types),
        "feature_names": dataset.feature_names if dataset.has_names else None,
        "categorical_features": None if dataset._categorical is None else list(dataset._categorical),
        "params": dataset.get_params(),
        "bin_params": asdict(dataset.bin_params),
        "levels": _facts_of(reader.levels),
        "n_levels": mapper.n_levels,
        "use_missing": mapper.use_missing,
    }
    step = max(1, BLOCK_BYTES // (bins.shape[1] * bins.itemsize))
    n_bytes = bins.nbytes + sum(array.nbytes for array in arrays.values())
    with BinWriter(where.parent, n_bytes, str(where)) as writer:
        for first in range(0, len(bins), step):
            writer.write_bins(bins[first : first + step])
        return writer.finish(arrays, json.loads(json.dumps(facts)))


def _facts_of(levels: list[Levels | None] | None) -> list[Any] | None:
    return None if levels is None else [None if own is None else _fact_of(own) for own in levels]


def _fact_of(own: Levels) -> dict[str, Any]:
    facts: dict[str, Any] = {"values": list(own.values), **({"is_cut": True} if own.is_cut else {})}
    if isinstance(own, EncodedLevels):
        facts |= {"numbers": own.numbers.tolist(), "missing": own.missing, "other": own.other}
    return facts


def _levels_of(facts: dict[str, Any]) -> Levels:
    values, is_cut = tuple(facts["values"]), "is_cut" in facts
    if "numbers" not in facts:
        return Levels(values, is_cut=is_cut)
    numbers = np.array(facts["numbers"], np.float64)
    return EncodedLevels(values, numbers, facts["missing"], facts["other"], is_cut=is_cut)
