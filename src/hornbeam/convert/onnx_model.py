"""Model -> ONNX: `TreeEnsemble` of ai.onnx.ml, opset 5, with double thresholds and sets.

    X  double (n, n_features)
    |  zeros become NaN, where they are missing values
    |  TreeEnsemble; of a random forest: / n_iterations, + start
    raw_score   double (n, n_outputs)
    |  link
    prediction  double (n, n_outputs)

The scores are those of Hornbeam bit for bit where trees are added in their order, as onnxruntime does with one thread.
The link is written in operations that have one result (+ - * / floor, a table of powers of two), since exp of ONNX
differs in the last bits: predictions have the same bits, too.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.extras import extra
from hornbeam.convert.missing_levels import without_missing_levels
from hornbeam.convert.outgoing import LARGEST_EXACT, Outgoing
from hornbeam.core import numerics
from hornbeam.data.sources.reader import ZERO
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree

OPSET, ML_OPSET, IR_VERSION = 18, 5, 10

BRANCH_LEQ, BRANCH_MEMBER = 0, 6
SUM, NO_TRANSFORM = 1, 0

LARGEST_EXPONENT = 1022

INT64 = 7
"""The number of the type in ONNX."""


def write(model: ModelData, approximate: bool) -> bytes:
    """Return the bytes of an ONNX file, or raise ConversionError."""
    onnx = extra("onnx", "ONNX models", "convert")
    exactness = Exactness("ONNX", approximate)
    out = Outgoing(model)
    out.refuse_encodings(exactness)
    out.refuse_large_numbers(exactness, LARGEST_EXACT)
    out.codes_for_strings(exactness)
    trees = out.trees if out.averages and out.trees else out.trees_from_zero()
    trees = [without_missing_levels(tree, out, exactness) for tree in trees]
    graph = _Graph(onnx)
    values = "X"
    if out.zeros_are_missing:
        is_number = np.array([[column.levels is None for column in out.columns]])
        is_zero = graph.node("LessOrEqual", graph.node("Abs", values), graph.scalar(ZERO))
        is_zero = graph.node("And", is_zero, graph.constant(is_number))
        values = graph.node("Where", is_zero, graph.scalar(np.nan), values)
    raw = graph.trees(values, trees, out)
    if out.averages and out.trees:
        raw = graph.node("Div", raw, graph.scalar(float(out.n_iterations)))
        raw = graph.node("Add", raw, graph.constant(out.init_scores[None]))
    prediction = _link(graph, raw, out)
    try:
        content = graph.finish({"raw_score": raw, "prediction": prediction}, out)
    except ValueError as error:  # of protobuf: files end at 2 GB
        exactness.refuse(f"a model of this size ({error})", "use another format, or fewer iterations: booster[:100]")
    exactness.report()
    return content


class _Graph:
    """Nodes and constants of a graph that grows; values have the names v0, v1, ..."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def node(self, operator: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its result, or of all results if it has several."""
        names = [f"v{len(self._nodes)}_{i}" for i in range(n_outputs)]
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if n_outputs == 1 else names

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant, and return its name."""
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(value, name))
        return name

    def scalar(self, value: float) -> str:
        """Add a number, and return its name."""
        return self.constant(np.array(value, np.float64))

    def trees(self, values: str, trees: list[Tree], out: Outgoing) -> str:
        """Add the trees, and return the name of the sums of their leaves, (n, n_outputs)."""

        def tensor(name: str, array: NDArray[Any]) -> Any:
            return self._onnx.numpy_helper.from_array(array, name)

        arrays = _ensemble(trees, out)
        members = arrays.pop("membership_values")
        tensors = {"nodes_splits": np.float64, "leaf_weights": np.float64, "nodes_modes": np.uint8}
        attributes: dict[str, Any] = {
            name: tensor(name, np.array(own, tensors[name])) if name in tensors else own for name, own in arrays.items()
        }
        if members:
            attributes["membership_values"] = tensor("membership_values", np.array(members, np.float64))
        summed: str = self.node(
            "TreeEnsemble",
            values,
            domain="ai.onnx.ml",
            n_targets=out.n_outputs,
            aggregate_function=SUM,
            post_transform=NO_TRANSFORM,
            **attributes,
        )
        return summed

    def finish(self, results: dict[str, str], out: Outgoing) -> bytes:
        """Return the bytes of the model."""
        helper, double = self._onnx.helper, self._onnx.TensorProto.DOUBLE
        for name, value in results.items():
            self._nodes.append(helper.make_node("Identity", [value], [name]))
        graph = helper.make_graph(
            self._nodes,
            "hornbeam",
            [helper.make_tensor_value_info("X", double, ["n", len(out.columns)])],
            [helper.make_tensor_value_info(name, double, ["n", out.n_outputs]) for name in results],
            self._constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="hornbeam", ir_version=IR_VERSION)
        helper.set_model_props(model, {"feature_names": json.dumps(out.names)})
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def _ensemble(trees: list[Tree], out: Outgoing) -> dict[str, list[Any]]:
    """Return the attributes of all splits and leaves, tree after tree.

    A tree of a single leaf is a split of two equal leaves. ONNX says it by a split whose children are one leaf, which
    onnxruntime before 1.30 adds up wrong.
    """
    keys = ("nodes_featureids", "nodes_splits", "nodes_modes", "nodes_truenodeids", "nodes_trueleafs",
            "nodes_falsenodeids", "nodes_falseleafs", "nodes_missing_value_tracks_true", "tree_roots",
            "leaf_targetids", "leaf_weights", "membership_values")  # fmt: skip
    found: dict[str, list[Any]] = {key: [] for key in keys}
    for number, tree in enumerate(trees):
        first_split, first_leaf = len(found["nodes_splits"]), len(found["leaf_weights"])
        found["tree_roots"].append(first_split)
        leaves = tree.leaf_value.tolist() * (1 if tree.n_splits else 2)
        found["leaf_weights"] += leaves
        found["leaf_targetids"] += [number % out.n_outputs] * len(leaves)
        splits = zip(
            tree.feature.tolist() or [0],
            tree.threshold.tolist() or [0.0],
            tree.missing_left.tolist() or [False],
            tree.left.tolist() or [~0],
            tree.right.tolist() or [~1],
            tree.left_codes or (None,) * max(tree.n_splits, 1),
            strict=True,
        )
        for feature, threshold, missing_left, left, right, codes in splits:
            found["nodes_featureids"].append(feature)
            found["nodes_splits"].append(threshold)
            found["nodes_modes"].append(BRANCH_LEQ if codes is None else BRANCH_MEMBER)
            found["nodes_missing_value_tracks_true"].append(int(missing_left))
            for side, child in (("true", left), ("false", right)):
                found[f"nodes_{side}leafs"].append(int(child < 0))
                found[f"nodes_{side}nodeids"].append(first_leaf + ~child if child < 0 else first_split + child)
            if codes is not None:
                found["membership_values"] += [*out.columns[feature].members(codes)[0], np.nan]
    return found


def _link(graph: _Graph, raw: str, out: Outgoing) -> str:
    """Add what makes predictions of raw scores; operations in the order of objectives/."""
    link = out.objective.link
    if link == "square":
        return str(graph.node("Mul", raw, graph.node("Abs", raw)))
    if link == "exp":
        return _exp(graph, raw)
    if link == "step":
        is_above = graph.node("Greater", raw, graph.scalar(0.0))
        return str(graph.node("Where", is_above, graph.scalar(1.0), graph.scalar(0.0)))
    if link == "softplus":
        return _softplus(graph, raw)
    if link == "sigmoid":
        scaled = graph.node("Neg", graph.node("Mul", graph.scalar(out.slope), raw))
        one = graph.scalar(1.0)
        return str(graph.node("Div", one, graph.node("Add", one, _exp(graph, scaled))))
    if link == "softmax":
        largest = graph.node("ReduceMax", raw, graph.constant(np.array([1])), keepdims=1)
        exps = _exp(graph, graph.node("Sub", raw, largest))
        columns = graph.node("Split", exps, axis=1, n_outputs=out.n_outputs, num_outputs=out.n_outputs)
        total = columns[0]
        for column in columns[1:]:
            total = graph.node("Add", total, column)
        return str(graph.node("Div", exps, total))
    return raw


def _exp(graph: _Graph, x: str) -> str:
    """Add `numerics.exp`, operation by operation; the power of two comes from a table."""
    limit = numerics.EXP_LIMIT
    x = graph.node("Min", graph.node("Max", x, graph.scalar(-limit)), graph.scalar(limit))
    k = graph.node("Mul", x, graph.scalar(numerics.LOG2_E))
    k = graph.node("Floor", graph.node("Add", k, graph.scalar(0.5)))
    r = graph.node("Sub", x, graph.node("Mul", k, graph.scalar(numerics.LN2_HIGH)))
    r = graph.node("Sub", r, graph.node("Mul", k, graph.scalar(numerics.LN2_LOW)))
    p = graph.scalar(numerics.EXP_COEFFICIENTS[0])
    for coefficient in numerics.EXP_COEFFICIENTS[1:]:
        p = graph.node("Add", graph.node("Mul", p, r), graph.scalar(coefficient))
    powers = np.ldexp(1.0, np.arange(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1))
    place = graph.node("Add", k, graph.scalar(float(LARGEST_EXPONENT)))
    power = graph.node("Gather", graph.constant(powers), graph.node("Cast", place, to=INT64))
    return str(graph.node("Mul", p, power))


def _softplus(graph: _Graph, x: str) -> str:
    """Add `numerics.softplus`, operation by operation."""
    one, zero = graph.scalar(1.0), graph.scalar(0.0)
    e = _exp(graph, graph.node("Neg", graph.node("Abs", x)))
    u = graph.node("Add", one, e)
    d = graph.node("Sub", u, one)
    is_lost = graph.node("Equal", d, zero)
    ratio = graph.node("Div", e, graph.node("Where", is_lost, one, d))
    part = graph.node("Where", is_lost, e, graph.node("Mul", _log(graph, u), ratio))
    return str(graph.node("Add", graph.node("Max", x, zero), part))


def _log(graph: _Graph, x: str) -> str:
    """Add `numerics.log` of numbers from 1 to 2, whose exponent is known."""
    half = graph.node("Mul", graph.scalar(0.5), x)
    is_low = graph.node("Less", half, graph.scalar(numerics.SQRT_HALF))
    m = graph.node("Where", is_low, x, half)
    k = graph.node("Where", is_low, graph.scalar(0.0), graph.scalar(1.0))
    one = graph.scalar(1.0)
    s = graph.node("Div", graph.node("Sub", m, one), graph.node("Add", m, one))
    z = graph.node("Mul", s, s)
    p = graph.scalar(numerics.LOG_COEFFICIENTS[0])
    for coefficient in numerics.LOG_COEFFICIENTS[1:]:
        p = graph.node("Add", graph.node("Mul", p, z), graph.scalar(coefficient))
    low = graph.node("Mul", graph.node("Mul", graph.scalar(2.0), s), p)
    low = graph.node("Add", graph.node("Mul", k, graph.scalar(numerics.LN2_LOW)), low)
    return str(graph.node("Add", graph.node("Mul", k, graph.scalar(numerics.LN2_HIGH)), low))
