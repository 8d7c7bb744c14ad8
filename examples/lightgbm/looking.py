"""Importances, contributions and plots, as LightGBM's users write it."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np

import hornbeam as lgb

rng = np.random.default_rng(5)
X = rng.normal(size=(700, 5))
y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=700)

train = lgb.Dataset(X[:500], y[:500], feature_name=list("abcde"))
valid = lgb.Dataset(X[500:], y[500:], reference=train)
record = {}
gbm = lgb.train(
    {"metric": "l2", "num_leaves": 7, "verbose": -1}, train, 15, valid_sets=[train, valid],
    callbacks=[lgb.record_evaluation(record)],
)  # fmt: skip
order = np.argsort(gbm.feature_importance("gain"))[::-1]
print("first two features:", sorted(gbm.feature_name()[place] for place in order[:2]))
contributions = gbm.predict(X[500:], pred_contrib=True)
print("contributions add up:", bool(np.allclose(contributions.sum(axis=1), gbm.predict(X[500:], raw_score=True))))
counts, edges = gbm.get_split_value_histogram("a", bins=4)
print("bins of split values:", len(counts), len(edges))
for axes in (
    lgb.plot_metric(record),
    lgb.plot_importance(gbm, max_num_features=5),
    lgb.plot_split_value_histogram(gbm, feature="a", bins="auto"),
):
    print("drawn:", axes.get_xlabel())
