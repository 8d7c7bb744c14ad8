"""What scripts of other people do with the estimators: subclasses, class weights, names of peers, strings."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import hornbeam as hb
from hornbeam import HornbeamClassifier, HornbeamRegressor

X = np.random.default_rng(0).standard_normal((200, 3))
Y = (X[:, 0] > 0.0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
QUICK = {"n_estimators": 3, "verbosity": -1, "device": "reference"}


class WithThreshold(HornbeamClassifier):
    """A subclass with a parameter of its own, which hands all others on."""

    def __init__(self, *, threshold=0.5, **others):
        super().__init__(**others)
        self.threshold = threshold


class Shallow(HornbeamRegressor):
    """A subclass that hands no parameter on."""

    def __init__(self, depth=2):
        super().__init__(max_depth=depth, **QUICK)
        self.depth = depth


def test_parameters_of_a_subclass_and_of_ours_are_seen():
    model = WithThreshold(threshold=0.3, num_leaves=5, **QUICK)
    assert model.get_params()["threshold"] == 0.3 and model.get_params()["num_leaves"] == 5
    copy = clone(model).set_params(num_leaves=6, threshold=0.2).fit(X, Y)
    assert copy.threshold == 0.2
    expected = HornbeamClassifier(num_leaves=6, **QUICK).fit(X, Y)
    assert copy.booster_.fingerprint() == expected.booster_.fingerprint()


def test_a_subclass_without_keywords_keeps_what_it_sets():
    model = Shallow(depth=1)
    assert model.get_params() == {"depth": 1}
    assert max(tree.n_leaves for tree in model.fit(X, X[:, 0]).booster_.trees) == 2


@pytest.mark.parametrize("labels", [Y, Y.astype(str), Y.astype(bool), np.where(Y, "yes", "no").astype(object)])
def test_class_weights_are_looked_up_by_label(labels):
    positive = np.unique(labels)[1]
    weight = np.where(labels == positive, 10.0, 1.0)
    expected = HornbeamClassifier(**QUICK).fit(X, labels, sample_weight=weight)
    for key in (positive, positive.item() if hasattr(positive, "item") else positive):
        model = HornbeamClassifier(class_weight={key: 10.0}, **QUICK).fit(X, labels)
        assert model.booster_.fingerprint() == expected.booster_.fingerprint()


@pytest.mark.parametrize("wrong", [{"other": 2.0}, [1.0, 2.0], "equal"])
def test_wrong_class_weights_are_named(wrong):
    with pytest.raises(hb.ParameterError, match="class_weight"):
        HornbeamClassifier(class_weight=wrong, **QUICK).fit(X, Y.astype(str))


@pytest.mark.parametrize("named", [{"objective": "binary:logistic"}, {"loss": "log_loss"}, {"objective": "binary"}])
def test_log_loss_of_three_classes_is_multiclass(named):
    expected = HornbeamClassifier(**QUICK).fit(X, THREE)
    assert HornbeamClassifier(**named, **QUICK).fit(X, THREE).booster_.fingerprint() == expected.booster_.fingerprint()


def test_max_leaf_nodes_none_is_no_limit():
    target = X[:, 0] * X[:, 1]
    model = HornbeamRegressor(max_leaf_nodes=None, min_child_samples=1, **QUICK).fit(X, target)
    assert model.booster_.trees[0].n_leaves > 100
    assert hb.Params.from_dict({"max_leaf_nodes": None}).num_leaves == 65_535
    assert hb.Params.from_dict({"num_leaves": None}).num_leaves == 31


def test_strings_without_named_categories_are_told_by_column():
    table = np.array([[1.0, "red"], [2.0, "blue"]] * 10, dtype=object)
    with pytest.raises(hb.DataError, match="'red' in column 1"):
        HornbeamClassifier(**QUICK).fit(table, [0, 1] * 10)
