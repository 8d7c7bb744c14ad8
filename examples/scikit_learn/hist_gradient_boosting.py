"""Early stopping, stages, categories and warm starts, as users of scikit-learn's HistGradientBoosting write it."""

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from hornbeam import HornbeamClassifier, HornbeamRegressor

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(1000, 4)), columns=list("abcd"))
X["e"] = pd.Categorical(np.array(["low", "mid", "high"])[rng.integers(0, 3, 1000)])
score = X["a"] + X["b"] * X["c"] + (X["e"] == "mid") + 0.3 * rng.normal(size=1000)
y = np.where(score > 0, "yes", "no")
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

model = HornbeamClassifier(
    max_iter=100, max_leaf_nodes=15, learning_rate=0.2, early_stopping=True, validation_fraction=0.2,
    n_iter_no_change=5, categorical_features="from_dtype", random_state=0,
).fit(X_train, y_train)  # fmt: skip
print("stopped:", model.n_iter_ < 100, model.do_early_stopping_)
print(f"accuracy: {model.score(X_test, y_test):.2f}")
losses = [log_loss(y_test, chances) for chances in model.staged_predict_proba(X_test)]
print("stages:", len(losses) == model.n_iter_, losses[-1] < losses[0])
decision = model.decision_function(X_test)
print("decisions agree:", bool(np.array_equal(np.where(decision > 0, "yes", "no"), model.predict(X_test))))

two, target = X_train[["a", "b"]], X_train["a"]
quantile = HornbeamRegressor(loss="quantile", quantile=0.9, max_iter=50, max_leaf_nodes=7).fit(two, target)
print("coverage:", bool(np.mean(quantile.predict(two) >= target) > 0.8))

warm = HornbeamRegressor(max_iter=5, warm_start=True, max_leaf_nodes=7).fit(two, target)
warm.set_params(max_iter=10).fit(two, target)
print("iterations:", warm.n_iter_)
pipeline = make_pipeline(FunctionTransformer(), HornbeamClassifier(max_iter=10, max_leaf_nodes=7))
print(f"cross-validated: {cross_val_score(pipeline, X_train[['a', 'b', 'c']], y_train, cv=2).mean():.1f}")
