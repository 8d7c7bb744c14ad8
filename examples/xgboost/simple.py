"""Train, watch, save, load and predict, as XGBoost's users write it."""

import tempfile
from pathlib import Path

import numpy as np

import hornbeam as xgb

rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 8))
y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=6000) > 0).astype(int)
dtrain, dtest = xgb.DMatrix(X[:4000], label=y[:4000]), xgb.DMatrix(X[4000:], label=y[4000:])

param = {"max_depth": 4, "eta": 0.3, "objective": "binary:logistic", "nthread": 2, "eval_metric": ["auc", "logloss"]}
result = {}
bst = xgb.train(
    param, dtrain, num_boost_round=60, evals=[(dtrain, "train"), (dtest, "eval")], early_stopping_rounds=5,
    evals_result=result, verbose_eval=False,
)  # fmt: skip
print(f"auc: {max(result['eval']['auc']):.3f}")
print("watched:", list(result))
preds = bst.predict(dtest)
print(f"error: {np.mean((preds > 0.5) != y[4000:]):.3f}")

with tempfile.TemporaryDirectory() as folder:
    bst.save_model(str(Path(folder) / "model.json"))
    bst2 = xgb.Booster({"nthread": 2})
    bst2.load_model(str(Path(folder) / "model.json"))
print("same predictions:", bool(np.array_equal(bst2.predict(dtest), preds)))
print("line:", bst.eval(dtest).split("\t")[0], "dump:", len(bst.get_dump()) > 0)
print("features with a score:", len(bst.get_score(importance_type="gain")) > 2)
