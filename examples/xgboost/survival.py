"""Censored times, lists of quantiles and boosted forests, as XGBoost's users write it."""

import numpy as np

import hornbeam as xgb

rng = np.random.default_rng(3)
X = rng.normal(size=(1200, 5))
time = np.exp(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=1200))
end = rng.uniform(0.5, 8.0, size=1200)
seen = np.minimum(time, end)

aft = xgb.DMatrix(X)
aft.set_float_info("label_lower_bound", seen)
aft.set_float_info("label_upper_bound", np.where(time <= end, time, np.inf))
params = {
    "objective": "survival:aft",
    "eval_metric": "aft-nloglik",
    "aft_loss_distribution": "normal",
    "aft_loss_distribution_scale": 0.5,
    "max_depth": 3,
    "eta": 0.1,
}
history = {}
bst = xgb.train(params, aft, num_boost_round=100, evals=[(aft, "train")], evals_result=history, verbose_eval=False)
print("likelihood:", round(history["train"]["aft-nloglik"][-1], 2))
print("order of the times:", round(np.corrcoef(np.log(bst.predict(aft)), np.log(time))[0, 1], 2))

cox = xgb.DMatrix(X, label=np.where(time <= end, seen, -seen))
params = {"objective": "survival:cox", "eval_metric": "cox-nloglik", "max_depth": 3, "eta": 0.1}
bst = xgb.train(params, cox, num_boost_round=50, evals=[(cox, "train")], evals_result=history, verbose_eval=False)
print("partial likelihood:", round(history["train"]["cox-nloglik"][-1], 2))
print("order of the risks:", round(np.corrcoef(np.log(bst.predict(cox)), np.log(time))[0, 1], 2))

dtrain = xgb.DMatrix(X, label=np.log(time))
params = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9], "max_depth": 3, "eta": 0.2}
quantiles = xgb.train(params, dtrain, num_boost_round=40).predict(dtrain)
inside = (quantiles[:, 0] <= np.log(time)) & (np.log(time) <= quantiles[:, 2])
print("quantiles:", quantiles.shape, "inside:", round(np.mean(inside), 2))

params = {"objective": "reg:squarederror", "num_parallel_tree": 4, "colsample_bynode": 0.6, "max_depth": 4, "eta": 0.3}
forest = xgb.train(params, dtrain, num_boost_round=10)
print("rounds:", forest.num_boosted_rounds(), "error:", round(np.std(forest.predict(dtrain) - np.log(time)), 2))
