"""The contexts of a growing tree's nodes: what the split search is told of each besides its sums (splitting.py).

    ContextPlan    what a training run asks for: signs, groups, shares of features, seeds
    TreeContexts   the same for one tree: bounds, outputs, keys and features of every node

Everything here is plain Python and NumPy on the host, so it is the same for every device; where a GPU grows a tree by
itself there is a twin, backends/gpu/kernels/growth/contexts.cl. Children get theirs from their parent's and from its
split alone:

    key       hash of the parent's key and the side: a node's random choices depend on its path, not on when it is made
    output    from its sums, pulled to the parent's output and kept between the parent's bounds
    bounds    the parent's; below a split by a constrained feature also the middle of the two outputs (basic method)
    groups    those of the parent that hold the feature of its split
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import CONTEXT
from hornbeam.core.errors import ParameterError
from hornbeam.core.fixed_point import Quantization
from hornbeam.core.hashing import hash_rows
from hornbeam.core.numerics import LN2, exp
from hornbeam.core.random_choices import Purpose, derived_key, random_bits, random_key
from hornbeam.data.binning import BinnedData
from hornbeam.params.constraints import resolve_groups, resolve_per_feature, resolve_weights
from hornbeam.params.params import Params
from hornbeam.trees.categorical_splits import l2_of_children
from hornbeam.trees.contexts.feature_costs import FeatureCosts, has_costs
from hornbeam.trees.contexts.feature_shares import choose_share
from hornbeam.trees.contexts.forced_splits import NO_FEATURE, ForcedSplit
from hornbeam.trees.contexts.leaf_boxes import LeafBoxes
from hornbeam.trees.node_table import NodeTable
from hornbeam.trees.records import ContextRules, ContextsAhead
from hornbeam.trees.splitting import (
    FeatureRules,
    NodeContext,
    SideBounds,
    SplitRules,
    leaf_output,
    node_output,
    node_score,
    pack_mask,
)


def monotone_factor(depth: int, penalty: float) -> float:
    """Return the factor on the gain of a constrained split at a depth (LightGBM's `monotone_penalty`)."""
    if penalty <= 0.0:
        return 1.0
    if penalty >= depth + 1.0:
        return 0.0
    if penalty <= 1.0:
        return 1.0 - math.ldexp(penalty, -depth)
    exponent = penalty - 1.0 - depth
    whole = math.floor(exponent)
    rest = float(exp(np.array([(exponent - whole) * LN2]))[0]) if exponent != whole else 1.0
    return 1.0 - math.ldexp(rest, whole)


class ContextPlan:
    """What a training run asks of the split search beyond sums and rules.

    Parameters
    ----------
    params
        Training parameters.
    feature_names
        Of all features of the data, the unused ones included.
    used
        int32 (n_used,): original number of each used feature.
    n_numeric
        So many of the used features, the first, are numbers.
    categorical
        Numbers of the categorical features (target-encoded ones too), which can have no monotone constraint.
    forced
        Split of every root that is forced, and those below it.
    """

    def __init__(
        self,
        params: Params,
        feature_names: Sequence[str],
        used: NDArray[np.int32],
        n_numeric: int,
        categorical: Sequence[int] = (),
        forced: ForcedSplit | None = None,
    ) -> None:
        self.n_used = len(used)
        self.n_numeric = n_numeric
        sign = resolve_per_feature(params.monotone_constraints, 0.0, feature_names, "monotone_constraints")
        for feature in categorical:
            if sign[feature] != 0:
                raise ParameterError(
                    f"monotone_constraints has {int(sign[feature])} for {feature_names[feature]!r}, a categorical "
                    "feature, whose levels have no order; make it 0, or the feature a number"
                )
        contribution = resolve_per_feature(params.feature_contri, 1.0, feature_names, "feature_contri")
        self.features = FeatureRules(sign[used].astype(np.int8), contribution[used])
        self.forced = forced
        self.forced_features = sorted({split.feature for split in forced.all()} - {NO_FEATURE}) if forced else []
        self.of_forced = FeatureRules(self.features.sign, np.ones(len(used)))
        """The gains of forced splits count as they are, and pay nothing."""
        self.groups = [group[used] for group in resolve_groups(params.interaction_constraints, feature_names)]
        self.by_tree = params.feature_fraction
        self.by_level = params.feature_fraction_bylevel
        self.by_node = params.feature_fraction_bynode
        given = params.feature_weights
        self.weights = None if given is None else resolve_weights(given, feature_names)[used]
        """Of the used features, float64 (n_used,), in choices of them; None: all have the same chance."""
        self.seeds = params.seed, params.feature_fraction_seed, params.extra_seed
        self.penalty = params.monotone_penalty
        self.costs = FeatureCosts(params, feature_names, used, contribution[used]) if has_costs(params) else None
        method, has_signs = params.monotone_constraints_method, bool(self.features.sign.any())
        self.bounds_leaves = method != "basic" and has_signs
        self.bounds_sides = method == "advanced" and has_signs
        if self.bounds_sides and params.tree_method != "hist":
            raise ParameterError(
                f"monotone_constraints_method='advanced' with tree_method={params.tree_method!r}: its bounds are those "
                "of bins; use 'intermediate', or tree_method='hist'"
            )
        self.needs_keys = params.extra_trees or self.by_node < 1.0
        groups = pack_mask(np.stack(self.groups)) if self.groups else np.zeros((0, 0), np.uint32)
        self.rules = ContextRules(
            self.features, groups, self.by_level, self.by_node, self.needs_keys, self.penalty, self.bounds_leaves,
            self.bounds_sides,
        )  # fmt: skip
        """The same for an engine that makes contexts by itself."""
        self.all_in_context = bool(
            self.needs_keys
            or self.by_level < 1.0
            or self.groups
            or params.monotone_constraints is not None
            or params.feature_contri is not None
            or params.path_smooth > 0.0
            or self.costs is not None
        )
        """Whether all nodes have a context, and not only those of forced splits."""
        self.needs_context = self.all_in_context or forced is not None

    @property
    def by_host(self) -> bool:
        """Whether the host leads growth step by step: nodes are told what no engine makes by itself."""
        weighs = self.weights is not None and min(self.by_level, self.by_node) < 1.0
        return weighs or self.forced is not None or self.costs is not None

    @property
    def in_turn(self) -> bool:
        """Whether a split may change what other leaves are split into, so that a tree grows one split at a time."""
        return self.bounds_leaves or (self.costs is not None and self.costs.moves)

    def tree_features(self, iteration: int, output: int) -> NDArray[np.int32] | None:
        """Return the features that a tree may use, int32 (n,), ascending; None: all.

        Those of forced splits are among them, whatever the share.
        """
        if self.by_tree >= 1.0:
            return None
        key = self._key(Purpose.FEATURES_BY_TREE, self.seeds[1], iteration, output)
        share = choose_share(key, np.arange(self.n_used), self.by_tree, self.weights)
        return np.union1d(share, self.forced_features).astype(np.int32)

    def _key(self, purpose: Purpose, own_seed: int, iteration: int, output: int) -> int:
        return derived_key(random_key(self.seeds[0], purpose, iteration, own_seed), output)

    def keys(self, iteration: int, output: int) -> tuple[int, int, int]:
        """Return what turns the hash of a node's path into the key of its features, and into that of its thresholds.

        The third turns a depth into the key of its features. Keys that nothing is chosen by are 0.
        """
        by_node, thresholds, by_level = 0, 0, 0
        if self.needs_keys:
            by_node = self._key(Purpose.FEATURES_BY_NODE, self.seeds[1], iteration, output)
            thresholds = self._key(Purpose.EXTRA_TREES, self.seeds[2], iteration, output)
        if self.by_level < 1.0:
            by_level = self._key(Purpose.FEATURES_BY_LEVEL, self.seeds[1], iteration, output)
        return by_node, thresholds, by_level

    def ahead(self, iteration: int, output: int) -> ContextsAhead:
        """Return what an engine makes the contexts of one tree by."""
        return ContextsAhead(self.rules, self.keys(iteration, output))


class TreeContexts:
    """Contexts of the nodes of one tree, by the numbers of the nodes in a NodeTable.

    lower, upper  bounds of the outputs of the node and of everything below it
    output        of the node, before shrinkage
    path          hash of the way from the root
    alive         bit g: interaction group g holds every feature on the way from the root
    """

    def __init__(
        self,
        plan: ContextPlan,
        rules: SplitRules,
        quantization: Quantization,
        nodes: NodeTable,
        binned: BinnedData,
        iteration: int,
        output: int,
    ) -> None:
        self.plan, self.rules = plan, rules
        self._units = quantization.gradient_unit, quantization.hessian_unit
        self._nodes = nodes
        self._binned = binned
        self._keys = plan.keys(iteration, output)
        own = plan.tree_features(iteration, output)
        self._own = np.arange(plan.n_used) if own is None else own.astype(np.intp)
        self._by_level: dict[int, NDArray[np.intp]] = {}
        self._by_groups: dict[int, NDArray[np.bool_]] = {}
        self._holders: dict[int, int] = {}
        gradient, hessian = np.array([nodes.gradient[0], nodes.hessian[0]], np.float64)[:, None]
        self.lower, self.upper = [-math.inf], [math.inf]
        root = leaf_output(gradient * self._units[0], hessian * self._units[1], rules)
        self.output = [float(root[0])]  # the root has no parent
        self.path = [0]
        self.alive = [(1 << len(plan.groups)) - 1]
        self.boxes = (
            LeafBoxes(plan.features.sign, binned.n_value_bins, binned.mapper.use_missing)
            if plan.bounds_leaves
            else None
        )
        """Of the leaves, where their outputs bound each other (`intermediate`, `advanced`)."""
        self._side_offsets = SideBounds.offsets_of(binned.n_value_bins, plan.n_numeric)

    def add_children(self, parents: Sequence[int]) -> None:
        """Enter the children of some nodes, which the NodeTable has already."""
        nodes = self._nodes
        children = [(nodes.left[parent], nodes.left[parent] + 1) for parent in parents]
        flat = [child for pair in children for child in pair]
        above = [parent for parent in parents for _ in (0, 1)]
        outputs = self._outputs(flat, above).tolist()
        paths = self._child_paths(parents)
        for i, parent in enumerate(parents):
            feature = nodes.split[parent][2]
            left, right = outputs[2 * i : 2 * i + 2]
            bounds = self._child_bounds(parent, feature, left, right)
            self.lower += (bounds[0][0], bounds[1][0])
            self.upper += (bounds[0][1], bounds[1][1])
            self.output += (left, right)
            self.path += paths[2 * i : 2 * i + 2]
            self.alive += (self.alive[parent] & self._holding(feature),) * 2
        if self.plan.costs is not None:
            self.plan.costs.add_children(parents)

    def restore(self, nodes: NodeTable, table: NDArray[np.void]) -> None:
        """Go on with nodes whose contexts an engine has made, dtypes.CONTEXT (n_nodes,)."""
        self._nodes = nodes
        self.lower, self.upper = table["lower"].tolist(), table["upper"].tolist()
        self.output, self.path = table["output"].tolist(), table["path"].tolist()
        for parent in nodes.parent[1:]:  # parents come before their children
            self.alive.append(self.alive[parent] & self._holding(nodes.split[parent][2]))

    def table(self) -> NDArray[np.void]:
        """Return the contexts of all nodes, dtypes.CONTEXT (n_nodes,)."""
        table = np.empty(len(self.output), CONTEXT)
        for name in ("lower", "upper", "output", "path"):
            table[name] = getattr(self, name)
        return table

    def _holding(self, feature: int) -> int:
        """Return the groups that hold a feature, bits as in `alive`."""
        found = self._holders.get(feature)
        if found is None:
            found = sum(1 << group for group, members in enumerate(self.plan.groups) if members[feature])
            self._holders[feature] = found
        return found

    def _outputs(self, some: Sequence[int], parents: Sequence[int]) -> NDArray[np.float64]:
        """Return the outputs of nodes, float64 (n,), from those and the bounds of their parents."""
        nodes = self._nodes
        pairs = zip(some, parents, strict=True)
        bounds = [self._bounds_below(parent, node != nodes.left[parent]) for node, parent in pairs]
        return node_output(
            np.array([nodes.gradient[node] for node in some], np.float64) * self._units[0],
            np.array([nodes.hessian[node] for node in some], np.float64) * self._units[1],
            np.array([nodes.end[node] - nodes.begin[node] for node in some], np.int64),
            np.array([self.output[parent] for parent in parents]),
            np.array([lower for lower, _ in bounds]),
            np.array([upper for _, upper in bounds]),
            self.rules,
            self._more_l2(parents),
        )

    def _bounds_below(self, parent: int, is_right: bool) -> tuple[float, float]:
        """Return the bounds that the output of a child has been looked for between."""
        feature, bin_ = self._nodes.split[parent][2:4]
        if self.boxes is not None and self.plan.bounds_sides and feature < self.plan.n_numeric:
            table = self.boxes.side_bounds(parent, self.output).get(feature)
            if table is not None:
                lower, upper = table[2 * is_right : 2 * is_right + 2, bin_].tolist()
                return lower, upper
        return self.lower[parent], self.upper[parent]

    def _sides(self, some: Sequence[int]) -> SideBounds | None:
        """Return the bounds of the children of some leaves, by feature and bin."""
        if self.boxes is None or not self.plan.bounds_sides:
            return None
        offsets = self._side_offsets
        table = np.empty((len(some), 4, int(offsets[-1])))
        for own, node in zip(table, some, strict=True):
            own[:] = np.array([self.lower[node], self.upper[node]] * 2)[:, None]
            for feature, bounds in self.boxes.side_bounds(node, self.output).items():
                own[:, offsets[feature] : offsets[feature + 1]] = bounds
        return SideBounds(table, offsets)

    def _more_l2(self, parents: Sequence[int]) -> NDArray[np.float64]:
        """Return what is added to lambda_l2 in the output of a child of each of these nodes, float64 (n,)."""
        features = np.array([self._nodes.split[parent][2] for parent in parents], np.int32)
        return l2_of_children(features, self._binned.n_value_bins, self.plan.n_numeric, self.rules)

    def _child_bounds(
        self, parent: int, feature: int, left: float, right: float
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return (lower, upper) of both children whose outputs are left and right."""
        lower, upper = self.lower[parent], self.upper[parent]
        sign = int(self.plan.features.sign[feature])
        if sign == 0 or self.boxes is not None:
            return (lower, upper), (lower, upper)
        middle = (left + right) / 2.0
        below, above = (lower, min(upper, middle)), (max(lower, middle), upper)
        return (below, above) if sign > 0 else (above, below)

    def settle(self, node: int, left_set: int | None, leaves: Sequence[int]) -> list[int]:
        """Take note of a split, and return the other leaves that may have another best split now.

        left_set  see LeafBoxes.split
        leaves    of the tree, the children of the node among them
        """
        moved = [] if self.boxes is None else self._divide_box(node, left_set)
        if self.plan.costs is not None and self.plan.costs.pay(self._nodes.split[node][2]):
            left = self._nodes.left[node]
            moved = [leaf for leaf in leaves if leaf not in (left, left + 1)]
        return moved

    def _divide_box(self, node: int, left_set: int | None) -> list[int]:
        """Divide the box of a leaf that was split, bound its children, and return the leaves whose bounds moved.

        left_set  see LeafBoxes.split

        Missing values go where the finished tree sends them, also those of features that have none in training.
        """
        assert self.boxes is not None
        nodes, left = self._nodes, self._nodes.left[node]
        _, _, feature, bin_, missing_left = nodes.split[node][:5]
        given = [feature], [bin_], [missing_left], *([nodes.end[i] - nodes.begin[i]] for i in (left, left + 1))
        goes_left = self._binned.missing_goes_left(*(np.array(value) for value in given))
        touched = self.boxes.split(node, left, feature, bin_, bool(goes_left[0]), left_set)
        moved = []
        for leaf in (left, left + 1, *touched):
            bounds = self.boxes.bounds(leaf, self.output)
            has_moved = bounds != (self.lower[leaf], self.upper[leaf]) or self.plan.bounds_sides
            self.lower[leaf], self.upper[leaf] = bounds
            if has_moved and leaf not in (left, left + 1):
                moved.append(leaf)
        return moved

    def _child_paths(self, parents: Sequence[int]) -> list[int]:
        """Return the paths of the children of some nodes, left and right in turn."""
        if not self.plan.needs_keys:
            return [0] * (2 * len(parents))
        above = np.array([self.path[parent] for parent in parents], np.uint64)
        sides = hash_rows(np.arange(2, dtype=np.uint64))
        paths: list[int] = hash_rows(above[:, None] ^ sides).ravel().tolist()
        return paths

    def of(self, some: Sequence[int]) -> NodeContext:
        """Return the contexts of some nodes, in this order."""
        nodes = self._nodes
        gradient = np.array([nodes.gradient[node] for node in some], np.float64) * self._units[0]
        hessian = np.array([nodes.hessian[node] for node in some], np.float64) * self._units[1]
        rows = np.array([nodes.end[node] - nodes.begin[node] for node in some], np.int64)
        output = np.array([self.output[node] for node in some])
        paths = np.array([self.path[node] for node in some], np.uint64)
        penalty = self.plan.penalty
        return NodeContext(
            lower=np.array([self.lower[node] for node in some]),
            upper=np.array([self.upper[node] for node in some]),
            parent_output=output,
            score=node_score(gradient, hessian, rows, output, self.rules),
            monotone_factor=np.array([monotone_factor(nodes.depth[node], penalty) for node in some]),
            key=random_bits(self._keys[1], paths),
            mask=pack_mask(np.stack([self.allowed(node) for node in some])),
            features=self.plan.features,
            cost=None if self.plan.costs is None else self.plan.costs.of(some, rows),
            sides=self._sides(some),
        )

    def of_forced(self, some: Sequence[int], splits: Sequence[ForcedSplit]) -> NodeContext:
        """Return the contexts of some nodes in which a forced split of each is the only candidate."""
        only = np.zeros((len(some), self.plan.n_used), bool)
        for allowed, split in zip(only, splits, strict=True):
            if split.feature != NO_FEATURE:
                allowed[split.feature] = True
        return replace(
            self.of(some),
            monotone_factor=np.ones(len(some)),
            key=np.array([split.key for split in splits], np.uint64),
            mask=pack_mask(only),
            features=self.plan.of_forced,
            cost=None,
        )

    def allowed(self, node: int) -> NDArray[np.bool_]:
        """Return which features a node may use, bool (n_used,)."""
        plan, depth = self.plan, self._nodes.depth[node]
        among = self._own
        if plan.by_level < 1.0:
            if depth not in self._by_level:
                key = derived_key(self._keys[2], depth)
                self._by_level[depth] = choose_share(key, among, plan.by_level, plan.weights)
            among = self._by_level[depth]
        if plan.groups:
            among = among[self._in_groups(self.alive[node])[among]]
        if plan.by_node < 1.0:
            among = choose_share(derived_key(self._keys[0], self.path[node]), among, plan.by_node, plan.weights)
        allowed = np.zeros(plan.n_used, bool)
        allowed[among] = True
        return allowed

    def _in_groups(self, alive: int) -> NDArray[np.bool_]:
        """Return the features of the groups that are still alive, bool (n_used,)."""
        found = self._by_groups.get(alive)
        if found is None:
            groups = self.plan.groups
            found = np.zeros(self.plan.n_used, bool)
            for group, members in enumerate(groups):
                if alive >> group & 1:
                    found |= members
            self._by_groups[alive] = found
        return found


def close_bounds(nodes: NDArray[np.void], contexts: NDArray[np.void]) -> None:
    """Bound every leaf by the middle between its output and its neighbours', so that no two values can cross.

    nodes     NODE (n_nodes,)      in
    contexts  CONTEXT (n_nodes,)   in out  of leaves that are bounded by their neighbours' outputs
    """
    is_leaf, output = nodes["left"] < 0, contexts["output"]
    for name in ("lower", "upper"):
        contexts[name][is_leaf] = ((contexts[name] + output) / 2.0)[is_leaf]


def leaf_outputs(
    nodes: NDArray[np.void],
    contexts: NDArray[np.void],
    leaves: NDArray[np.intp],
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    binned: BinnedData,
    rules: SplitRules,
) -> NDArray[np.float64]:
    """Return the outputs of leaves from sums of full precision, before shrinkage.

    nodes              NODE (n_nodes,)      in
    contexts           CONTEXT (n_nodes,)   in
    leaves             intp (n_leaves,)     in  the node of each leaf
    gradient, hessian  float64 (n_leaves,)  in
    """
    if len(leaves) == 1:
        return leaf_output(gradient, hessian, rules)
    above = nodes["parent"][leaves]
    return node_output(
        gradient,
        hessian,
        nodes["end"][leaves] - nodes["begin"][leaves],
        contexts["output"][above],
        contexts["lower"][leaves],
        contexts["upper"][leaves],
        rules,
        l2_of_children(nodes["split"]["feature"][above], binned.n_value_bins, binned.n_numeric, rules),
    )
