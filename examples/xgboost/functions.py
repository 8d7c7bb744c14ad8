"""Objective, metric and callback of one's own, as XGBoost's users write it."""

import numpy as np

import hornbeam as xgb

rng = np.random.default_rng(1)
X = rng.normal(size=(800, 5))
y = np.exp(0.4 * X[:, 0] + 0.2 * X[:, 1]) + 0.05 * rng.random(800)
dtrain, dtest = xgb.DMatrix(X[:600], label=y[:600]), xgb.DMatrix(X[600:], label=y[600:])


def squared_log(predt, dtrain):
    """Return gradients and hessians of the squared log error."""
    label = dtrain.get_label()
    predt = np.maximum(predt, -1 + 1e-6)
    gradient = (np.log1p(predt) - np.log1p(label)) / (predt + 1)
    hessian = (-np.log1p(predt) + np.log1p(label) + 1) / (predt + 1) ** 2
    return gradient, np.maximum(hessian, 1e-6)


def rmsle(predt, dtrain):
    """Return the root mean squared log error."""
    label = dtrain.get_label()
    return "RMSLE", float(np.mean((np.log1p(np.maximum(predt, -1 + 1e-6)) - np.log1p(label)) ** 2) ** 0.5)


class Steps(xgb.callback.TrainingCallback):
    """Counts iterations."""

    def __init__(self):
        self.count = 0

    def after_iteration(self, model, epoch, evals_log):
        """Count."""
        self.count += 1
        return False


steps, result = Steps(), {}
xgb.train(
    {"max_depth": 3, "eta": 0.3, "seed": 7}, dtrain, num_boost_round=30, obj=squared_log, custom_metric=rmsle,
    evals=[(dtest, "test")], evals_result=result, verbose_eval=False, callbacks=[steps],
)  # fmt: skip
print("iterations:", steps.count, len(result["test"]["RMSLE"]))
print("rmsle below 0.1:", result["test"]["RMSLE"][-1] < 0.1)
