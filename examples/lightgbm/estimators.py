"""Estimators with early stopping, a metric function and a grid search, as LightGBM's users write it."""

import numpy as np
from sklearn.model_selection import GridSearchCV

import hornbeam as lgb
from hornbeam import HornbeamRegressor

rng = np.random.default_rng(1)
X = rng.normal(size=(900, 6))
y = np.exp(0.5 * X[:, 0]) + np.abs(X[:, 1]) + 0.1 * rng.normal(size=900)
X_train, X_test, y_train, y_test = X[:700], X[700:], y[:700], y[700:]


def rmsle(y_true, y_pred):
    """Return the root mean squared logarithmic error."""
    return "rmsle", float(np.mean((np.log1p(np.maximum(y_pred, 0)) - np.log1p(y_true)) ** 2) ** 0.5), False


gbm = HornbeamRegressor(num_leaves=15, learning_rate=0.1, n_estimators=40, verbose=-1)
gbm.fit(X_train, y_train, eval_set=[(X_test, y_test)], eval_metric="l1", callbacks=[lgb.early_stopping(5)])
print(f"rmse: {np.mean((gbm.predict(X_test, num_iteration=gbm.best_iteration_) - y_test) ** 2) ** 0.5:.4f}")
gbm.fit(X_train, y_train, eval_set=[(X_test, y_test)], eval_metric=rmsle)
print(f"rmsle: {gbm.evals_result_['valid_0']['rmsle'][-1]:.4f}")
print("used features:", int((gbm.feature_importances_ > 0).sum()))

search = GridSearchCV(HornbeamRegressor(verbose=-1, num_leaves=7), {"n_estimators": [5, 20]}, cv=2)
search.fit(X_train, y_train)
print("best n_estimators:", search.best_params_["n_estimators"])
