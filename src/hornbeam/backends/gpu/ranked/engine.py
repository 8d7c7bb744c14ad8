"""What engines on ranks have in common: rows go down finished trees by their ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.binning.ranks import take_ranks
from hornbeam.backends.demand import Demand
from hornbeam.backends.gpu.data.layout import Layout, megabytes
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.growth.bag import DeviceBag
from hornbeam.backends.gpu.growth.leaves import DeviceLeaves
from hornbeam.backends.gpu.runtime.runtime import Runtime
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.core.cpus import available_cpus
from hornbeam.core.errors import DeviceMemoryError
from hornbeam.data.binning import BinnedData, allocate_bins
from hornbeam.data.quantiles import joined_mapper


class RankedEngine(GpuEngine):
    """Training state on one device, whose histograms are of other bins than the ranks of the training set.

    ranked  the training set
    sizes   int32 (n_used,)  value bins of each feature in the histograms
    """

    def __init__(
        self,
        runtime: Runtime,
        ranked: BinnedData,
        sizes: NDArray[np.int32],
        min_data_in_leaf: int,
        demand: Demand,
        limit_mb: float,
    ) -> None:
        n_used, mapper = ranked.n_used, joined_mapper(ranked, sizes)
        joined = BinnedData(mapper, allocate_bins(ranked.n_rows, n_used, mapper.bin_dtype))
        take_ranks(
            joined.bins[:, :n_used], ranked.bins[:, :n_used], sizes == ranked.n_value_bins, self._spare_bins,
            available_cpus(),
        )  # fmt: skip
        super().__init__(runtime, joined, min_data_in_leaf, demand, limit_mb)
        self._joined, self._binned = joined, ranked
        own = self.workspace
        try:
            of_ranks, spare = Layout.of(ranked).tile_bytes, own.spare_bytes()
            wanted = of_ranks + self._more_bytes(spare - of_ranks)
            if wanted > spare:
                raise DeviceMemoryError(
                    f"the ranks of {ranked.n_rows:,} rows x {n_used:,} features need {megabytes(wanted)} of device "
                    f"memory besides, and {own.facts.name} has {megabytes(max(0, spare))} for them: fewer rows or "
                    "features, device='cpu' or tree_method='hist' help"
                )
            self._ranks = PlacedBins(own, "ranks", ranked)
            self._bag = DeviceBag(own, self._ranks)
            self._leaves = DeviceLeaves(own, self._bag)
            self._prepare()
        except BaseException:
            own.close()
            raise

    @staticmethod
    def _spare_bins(rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return bins of a feature whose ranks are no bins, until there are others, for some rows."""
        return np.zeros_like(rows)

    def _more_bytes(self, spare: int) -> int:
        """Return the bytes that are kept besides the ranks, where so many are to spare."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Make what is kept besides."""
        raise NotImplementedError
