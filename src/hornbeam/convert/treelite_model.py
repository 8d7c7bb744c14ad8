"""Model -> treelite's own format (`treelite.Model.deserialize`), thresholds and leaves as float64.

A split of numbers is x <= threshold; one of categories has a list, whose members go left. Missing values go by a
default direction at both, so a level of missing values is one. Scores have the bits of Hornbeam; predictions pass
treelite's exp, which may differ in the last bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.extras import extra
from hornbeam.convert.outgoing import Outgoing
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree

LARGEST_CATEGORY = 2**24
"""Categories beyond are refused: treelite compares them after rounding to float32 where the data are float32."""

POSTPROCESSORS = {
    "identity": "identity", "square": "signed_square", "exp": "exponential", "sigmoid": "sigmoid",
    "softplus": "logarithm_one_plus_exp",
}  # fmt: skip


def write(model: ModelData, approximate: bool) -> bytes:
    """Return the bytes of a treelite file, or raise ConversionError."""
    treelite = extra("treelite", "treelite models", "convert")
    extra("treelite.model_builder", "treelite models", "convert")
    exactness = Exactness("treelite's format", approximate)
    out = Outgoing(model)
    out.refuse_encodings(exactness)
    out.refuse_large_numbers(exactness, LARGEST_CATEGORY)
    out.codes_for_strings(exactness)
    trees = out.trees if out.averages and out.trees else out.trees_from_zero()
    trees = out.without_zeros(exactness, trees)
    try:
        builder = _builder(treelite.model_builder, trees, out, exactness)
        for tree in trees:
            _add_tree(builder, tree, out)
        made = builder.commit()
        # once more: the builder reads numbers from JSON text, and is off in the last bit of some
        made.get_header_accessor().set_field("base_scores", _starts(out))
        content: bytes = made.serialize_bytes()
    except treelite.TreeliteError as error:
        exactness.refuse(f"treelite does not take the model ({error})", "use another format")
    exactness.report()
    return content


def _starts(out: Outgoing) -> NDArray[np.float64]:
    """Return what is added to the trees, float64 (n_outputs,): it is in the first trees, unless they are averaged."""
    return out.init_scores if out.averages and out.trees else np.zeros(out.n_outputs)


def _builder(model_builder: Any, trees: list[Tree], out: Outgoing, exactness: Exactness) -> Any:
    n_outputs, link = out.n_outputs, out.objective.link
    name = POSTPROCESSORS.get(link, link)
    task = "kRegressor"
    if link == "step":
        exactness.refuse(
            f"predictions of objective {out.objective.name!r}, 1 where the score is above 0",
            "use format 'onnx', 'c', 'python' or 'xgboost-json'",
        )
    if n_outputs > 1:
        if link in ("exp", "square", "softplus"):
            exactness.refuse(f"several outputs of objective {out.objective.name!r}", "use another format")
        task = "kMultiClf"
        name = {"identity": "identity_multiclass", "sigmoid": "multiclass_ova"}.get(link, link)
    elif link == "sigmoid":
        task = "kBinaryClf"
    if float(np.float32(out.slope)) != out.slope:
        exactness.approximates(
            f"sigmoid={out.slope!r}, which treelite keeps as float32",
            "predictions differ by 1e-7 of them or so; scores are exact",
        )
    return model_builder.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=model_builder.Metadata(
            num_feature=len(out.columns),
            task_type=task,
            average_tree_output=out.averages and bool(out.trees),
            num_target=1,
            num_class=[n_outputs],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=model_builder.TreeAnnotation(
            num_tree=len(trees),
            target_id=[0] * len(trees),
            class_id=[i % n_outputs for i in range(len(trees))],
        ),
        postprocessor=model_builder.PostProcessorFunc(name=name, sigmoid_alpha=out.slope),
        base_scores=_starts(out).tolist(),
        attributes={"feature_names": out.names},
    )


def _add_tree(builder: Any, tree: Tree, out: Outgoing) -> None:
    """Add a tree: splits keep their numbers, leaves follow."""
    n_splits = tree.n_splits

    def key(child: int) -> int:
        return child if child >= 0 else n_splits + ~child

    builder.start_tree()
    splits = zip(
        tree.feature.tolist(),
        tree.threshold.tolist(),
        tree.missing_left.tolist(),
        tree.left.tolist(),
        tree.right.tolist(),
        tree.left_codes or (None,) * n_splits,
        strict=True,
    )
    for split, (feature, threshold, missing_left, left, right, codes) in enumerate(splits):
        builder.start_node(split)
        children = {"left_child_key": key(left), "right_child_key": key(right)}
        if codes is None:
            builder.numerical_test(feature, threshold, default_left=missing_left, opname="<=", **children)
        else:
            members, missing_left = out.columns[feature].members(codes)
            builder.categorical_test(
                feature,
                default_left=missing_left,
                category_list=members,
                category_list_right_child=False,
                **children,
            )
        builder.gain(float(tree.gain[split]))
        builder.sum_hess(float(tree.split_weight[split]))
        builder.data_count(int(tree.split_count[split]))
        builder.end_node()
    for leaf, value in enumerate(tree.leaf_value.tolist()):
        builder.start_node(n_splits + leaf)
        builder.leaf(value)
        builder.sum_hess(float(tree.leaf_weight[leaf]))
        builder.data_count(int(tree.leaf_count[leaf]))
        builder.end_node()
    builder.end_tree()
