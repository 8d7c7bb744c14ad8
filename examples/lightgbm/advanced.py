"""Weights, names, JSON, training on, schedules, functions and live Boosters, as LightGBM's users write it."""

import pickle

import numpy as np

import hornbeam as lgb

rng = np.random.default_rng(2)
X = rng.normal(size=(900, 6))
X[:, 5] = rng.integers(0, 4, 900)
y = (X[:, 0] + X[:, 1] * X[:, 2] + (X[:, 5] == 2) + 0.3 * rng.normal(size=900) > 0).astype(int)
weight = rng.random(900) + 0.5
X_train, X_test, y_train, y_test = X[:700], X[700:], y[:700], y[700:]

names = [f"feature_{i}" for i in range(6)]
lgb_train = lgb.Dataset(
    X_train, y_train, weight=weight[:700], feature_name=names, categorical_feature=[5], free_raw_data=False
)
lgb_eval = lgb.Dataset(X_test, y_test, reference=lgb_train, weight=weight[700:], free_raw_data=False)
params = {
    "objective": "binary", "metric": "binary_logloss", "num_leaves": 15, "learning_rate": 0.1, "verbose": -1,
}  # fmt: skip
gbm = lgb.train(params, lgb_train, num_boost_round=10, valid_sets=lgb_train)
print("seventh feature name:", lgb_train.feature_name[5])
print("trees in the dump:", len(gbm.dump_model()["tree_info"]))
print("importances:", len(gbm.feature_importance()))

gbm = pickle.loads(pickle.dumps(gbm))  # noqa: S301
gbm = lgb.train(params, lgb_train, num_boost_round=10, init_model=gbm, valid_sets=lgb_eval)
gbm = lgb.train(
    params, lgb_train, num_boost_round=10, init_model=gbm, valid_sets=lgb_eval,
    callbacks=[lgb.reset_parameter(learning_rate=lambda i: 0.05 * 0.99**i)],
)  # fmt: skip
gbm = lgb.train(
    {**params, "bagging_freq": 1, "bagging_fraction": 0.8}, lgb_train, num_boost_round=10, init_model=gbm,
    callbacks=[lgb.reset_parameter(bagging_fraction=[0.7] * 5 + [0.6] * 5)],
)  # fmt: skip
print("trees:", gbm.num_trees())


def loglikelihood(preds, train_data):
    """Return gradients and hessians of the log loss."""
    labels = train_data.get_label()
    preds = 1.0 / (1.0 + np.exp(-preds))
    return preds - labels, preds * (1.0 - preds)


def binary_error(preds, train_data):
    """Return the share of rows on the wrong side, by raw scores."""
    return "error", float(np.mean(train_data.get_label() != (preds > 0))), False


record = {}
custom = lgb.train(
    {**params, "objective": loglikelihood, "metric": "None"}, lgb_train, 15, valid_sets=lgb_eval, feval=binary_error,
    callbacks=[lgb.record_evaluation(record)],
)  # fmt: skip
print(f"error: {record['valid_0']['error'][-1]:.4f}")

live = lgb.Booster(params, lgb_train)
live.add_valid(lgb_eval, "eval")
for _ in range(6):
    live.update()
live.rollback_one_iter()
print("live:", live.current_iteration(), [name for name, *_ in live.eval_valid()])
