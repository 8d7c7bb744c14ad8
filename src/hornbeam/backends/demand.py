"""What a training keeps for each row besides its bins: known before an engine is made, so that memory is checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.binning import BinnedData
from hornbeam.data.columns import Column, DeviceColumn
from hornbeam.objectives.base import Objective
from hornbeam.objectives.cox import CoxObjective
from hornbeam.objectives.ranking import XendcgObjective
from hornbeam.params.params import Params
from hornbeam.params.random_parts import samples_rows
from hornbeam.trees.contexts.tree_contexts import ContextPlan


def label_bytes(objective: Objective) -> int:
    """Return the bytes of a label on a device: labels 0 and 1 take one, unless residuals are made of them."""
    return (
        1 if objective.labels == "binary" and objective.n_targets == 1 and objective.renewal_percentile is None else 8
    )


TRAINING_BYTES = 64
"""Bytes of a row that a training on a GPU takes besides the bins, about: where there is no room for these, bins of
values in host memory are made there, and stay there."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a training asks for.

    n_outputs    scores, gradients and hessians of each
    n_leaves     of a tree, at most
    given_bytes  labels, weights, queries and risk sets, and sums by row that rank_xendcg and survival:cox make
    sampled      trees see a sample of the rows
    goss         which depends on the gradients
    stores_gradients  gradients and hessians are kept: see backends/gpu/losses/row_gradients.py
    formula_code, label_bytes  of the loss (Objective.formula; 0: it has none), and of a label on a device
    keeps_gradients  several trees of an output are grown from them, while scores change
    high_precision  gradients have 31 bits from the first tree on
    renewed, renewal_weighted  leaves are percentiles of residuals; which have weights
    renewal_weight_bytes  of given_bytes, those of these weights
    bundled  sparse features may share columns of a GPU
    n_categorical, set_words  categorical features, and words of a set of their levels
    in_context, n_groups, costs  nodes have contexts (contexts.py); interaction groups; splits have prices
    n_histograms  of a node: more than 1 where all outputs share a tree
    valid_sets  bins of the sets that are scored besides
    on_workers  trees grow with the rows of other workers
    """

    n_outputs: int = 1
    n_leaves: int = 31
    given_bytes: int = 0
    sampled: bool = False
    goss: bool = False
    stores_gradients: bool = True
    formula_code: int = 0
    label_bytes: int = 8
    keeps_gradients: bool = False
    high_precision: bool = False
    renewed: bool = False
    renewal_weighted: bool = False
    renewal_weight_bytes: int = 0
    bundled: bool = True
    n_categorical: int = 0
    set_words: int = 0
    in_context: bool = False
    n_groups: int = 0
    costs: bool = False
    n_histograms: int = 1
    valid_sets: tuple[BinnedData, ...] = ()
    on_workers: bool = False

    @classmethod
    def of(
        cls,
        params: Params,
        binned: BinnedData,
        objective: Objective,
        renewal_weight: Column | None,
        *given: NDArray[Any] | DeviceColumn | None,
        valid_sets: Iterable[BinnedData] = (),
        plan: ContextPlan | None = None,
    ) -> Demand:
        """Say what a training on these bins asks for.

        objective  bound to the training set
        renewal_weight  see Objective.renewal_weights
        given      labels first, weights and so on
        """
        queries = getattr(objective, "queries", None) or getattr(objective, "risk_sets", None)
        of_queries = () if queries is None else (getattr(queries, field.name) for field in fields(queries))
        sampled = samples_rows(params)
        is_shared = params.multi_strategy == "multi_output_tree" and objective.n_outputs > 1
        return cls(
            n_outputs=objective.n_outputs,
            n_leaves=params.num_leaves,
            given_bytes=_bytes((*_labels_as_kept(objective, given), renewal_weight, *of_queries))
            + binned.n_rows * _row_bytes(objective),
            sampled=sampled,
            formula_code=0 if objective.formula is None else objective.formula[0],
            label_bytes=label_bytes(objective),
            stores_gradients=sampled or objective.formula is None or params.num_parallel_tree > 1 or params.linear_tree,
            keeps_gradients=params.num_parallel_tree > 1 or params.linear_tree,
            goss=sampled and params.data_sample_strategy == "goss",
            high_precision=params.precision == "high",
            renewed=objective.renewal_percentile is not None,
            renewal_weighted=renewal_weight is not None,
            renewal_weight_bytes=_bytes((renewal_weight,)),
            bundled=params.enable_bundle and not is_shared,
            n_categorical=binned.n_used - binned.n_numeric,
            set_words=binned.set_words,
            in_context=plan is not None and plan.needs_context,
            n_groups=0 if plan is None else len(plan.groups),
            costs=plan is not None and plan.costs is not None,
            n_histograms=objective.n_outputs + 1 if is_shared else 1,
            valid_sets=tuple(valid_sets),
        )


PLAIN_DEMAND = Demand()
"""What every training asks for."""


def _row_bytes(objective: Objective) -> int:
    """Return the bytes a row of what an objective makes on a device besides gradients."""
    if isinstance(objective, CoxObjective):
        return 33  # risks, three kinds of sums, and totals of blocks: backends/gpu/losses/survival.py
    return 8 if isinstance(objective, XendcgObjective) else 0


def _labels_as_kept(objective: Objective, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the same, with the labels, which come first, as bytes where a device keeps them so."""
    if not given or given[0] is None or label_bytes(objective) == 8:
        return given
    label = given[0]
    return label.in_bytes if isinstance(label, DeviceColumn) else np.empty(len(label), np.uint8), *given[1:]


def _bytes(arrays: tuple[Any, ...]) -> int:
    """Return what a device takes for some arrays; the user's own arrays on the device are there already."""
    on_host = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    return on_host + sum(array.taken_bytes for array in arrays if isinstance(array, DeviceColumn))
