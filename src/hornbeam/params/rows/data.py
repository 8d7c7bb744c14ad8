"""How data become bins."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam.core.dtypes import MAX_BIN
from hornbeam.params.rows.row import parameter


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # Params has these
class DataRows:
    """Rows of the group Binning."""

    categorical_feature: str | tuple[int | str, ...] = parameter(
        "columns",
        "auto",
        "Binning",
        "Columns whose values are levels without an order: names, positions, or both (a list; `0,2`; `name:a,b`). "
        "`auto`: those of the Dataset, by default the columns of strings and categories of a frame. Not saved: the "
        "levels are in the model.",
        aliases=("cat_feature", "categorical_column", "cat_column", "categorical_features"),
        in_model=False,
    )
    tree_method: str = parameter(
        "choice",
        "hist",
        "Binning",
        "What thresholds are tried. `hist` (also `auto`): bounds of bins that are found once. `exact`: every distinct "
        "value of a feature. `approx`: bounds of bins that are found before every tree, `max_bin` quantiles weighted "
        "by the hessians of the tree's rows, exactly. The latter two take more memory, and find bins from all rows. "
        "XGBoost's `gpu_hist` is `hist` with `device='cuda'`.",
        choices={"auto": "hist", "hist": "hist", "exact": "exact", "approx": "approx"},
    )
    target_encoding_levels: int = parameter(
        "int",
        1000,
        "Binning",
        "A categorical feature of more levels than this is replaced by a number, the mean label of its level; that of "
        "a training row comes from the labels of other rows. -1: never; 0: every categorical feature. Without effect "
        "where labels are classes (`num_class` > 1).",
        low=-1,
    )
    target_encoding_smooth: float = parameter(
        "float",
        10.0,
        "Binning",
        "Number of rows with the mean label of all rows that are added to every level before its mean is taken.",
        low=0.0,
        high=1e9,
    )
    max_bin: int = parameter(
        "int",
        255,
        "Binning",
        "Largest number of bins of a feature, besides the bin of missing values. Above 255, bins take 16 bits. A "
        "categorical feature has more where it takes more levels to cover 99 % of the rows.",
        aliases=("max_bins",),
        low=2,
        high=MAX_BIN,
    )
    max_bin_by_feature: tuple[int, ...] | None = parameter(
        "bins",
        None,
        "Binning",
        "`max_bin` of each feature, a list or a string; None: `max_bin` for all.",
    )
    forcedbins_filename: str | None = parameter(
        "bounds",
        None,
        "Binning",
        "Bounds that features of numbers shall have among those of their bins: a JSON file as LightGBM reads it, "
        '`[{"feature": 0, "bin_upper_bound": [0.3, 0.5]}]`, or pairs of a feature and its bounds. A model keeps them, '
        "not the name of the file. The other bins are found as usual, as many as `max_bin` leaves.",
    )
    min_data_in_bin: int = parameter("int", 3, "Binning", "Smallest number of sampled rows of a bin.", low=1)
    bin_construct_sample_cnt: int = parameter(
        "int",
        200_000,
        "Binning",
        "Number of rows from which bins are found, chosen by a hash of the row number.",
        aliases=("subsample_for_bin",),
        low=1,
    )
    use_missing: bool = parameter(
        "bool", True, "Binning", "Learn at every split where missing values (NaN) go. False: NaN counts as 0."
    )
    zero_as_missing: bool = parameter(
        "bool",
        False,
        "Binning",
        "Zeros (magnitudes up to 1e-35, and what a sparse matrix does not hold) are missing values, as NaN is, in "
        "training and in prediction; the level 0 of a categorical feature stays a level. Without effect where "
        "`use_missing` is False.",
    )
    is_enable_sparse: bool = parameter(
        "bool",
        True,
        "Binning",
        "Store sparse features by their entries that are not zero; False: a bin for every row. The model is the same.",
        aliases=("is_sparse", "enable_sparse", "sparse"),
        in_model=False,
    )
    sparse_threshold: float = parameter(
        "float",
        0.8,
        "Binning",
        "A feature, or a bundle of features, is sparse when at least this share of its rows is zero. The model is the "
        "same.",
        low=0.0,
        low_open=True,
        high=1.0,
        in_model=False,
    )
    enable_bundle: bool = parameter(
        "bool",
        True,
        "Binning",
        "Store sparse features that are never other than zero in the same row together, in one column (exclusive "
        "feature bundling). The model is the same.",
        aliases=("is_enable_bundle", "bundle"),
        in_model=False,
    )
