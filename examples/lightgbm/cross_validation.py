"""Cross-validation with early stopping, as LightGBM's users write it."""

import numpy as np

import hornbeam as lgb

rng = np.random.default_rng(6)
X = rng.normal(size=(800, 5))
y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=800) > 1).astype(int)

history = lgb.cv(
    {"objective": "binary", "metric": "auc", "num_leaves": 7, "learning_rate": 0.2, "verbose": -1},
    lgb.Dataset(X, label=y), num_boost_round=40, nfold=4, stratified=True, shuffle=True, seed=3,
    callbacks=[lgb.early_stopping(5, verbose=False)], return_cvbooster=True,
)  # fmt: skip
print("folds:", len(history["cvbooster"].boosters))
print(f"auc: {history['valid auc-mean'][-1]:.3f}")
