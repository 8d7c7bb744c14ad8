"""Train, stop early, save and predict, as LightGBM's users write it."""

import tempfile
from pathlib import Path

import numpy as np

import hornbeam as lgb

rng = np.random.default_rng(0)
X = rng.normal(size=(1200, 8))
y = 2.0 * X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=1200)
X_train, X_test, y_train, y_test = X[:900], X[900:], y[:900], y[900:]

lgb_train = lgb.Dataset(X_train, y_train)
lgb_eval = lgb.Dataset(X_test, y_test, reference=lgb_train)
params = {
    "boosting_type": "gbdt",
    "objective": "regression",
    "metric": {"l2", "l1"},
    "num_leaves": 15,
    "learning_rate": 0.1,
    "feature_fraction": 0.9,
    "bagging_fraction": 0.8,
    "bagging_freq": 5,
    "verbose": -1,
}
gbm = lgb.train(
    params, lgb_train, num_boost_round=60, valid_sets=lgb_eval, callbacks=[lgb.early_stopping(stopping_rounds=5)]
)
with tempfile.TemporaryDirectory() as folder:
    gbm.save_model(str(Path(folder) / "model.txt"))
    again = lgb.Booster(model_file=str(Path(folder) / "model.txt"))
print("columns:", gbm.num_feature())
y_pred = gbm.predict(X_test, num_iteration=gbm.best_iteration)
assert np.array_equal(again.predict(X_test, num_iteration=gbm.best_iteration), y_pred)
print(f"rmse: {np.mean((y_pred - y_test) ** 2) ** 0.5:.4f}")
