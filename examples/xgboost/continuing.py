"""Training on, margins and single iterations, as XGBoost's users write it."""

import numpy as np

import hornbeam as xgb

rng = np.random.default_rng(2)
X = rng.normal(size=(800, 5))
y = X[:, 0] + X[:, 1] ** 2 + 0.2 * rng.normal(size=800)
dtrain, dtest = xgb.DMatrix(X[:600], label=y[:600]), xgb.DMatrix(X[600:], label=y[600:])
param = {"max_depth": 3, "eta": 0.2, "objective": "reg:squarederror"}

first = xgb.train(param, dtrain, num_boost_round=10)
second = xgb.train(param, dtrain, num_boost_round=10, xgb_model=first)
print("rounds:", first.num_boosted_rounds(), second.num_boosted_rounds())
part = second.predict(dtest, iteration_range=(0, 10))
print("the first rounds are those of the first model:", bool(np.allclose(part, first.predict(dtest))))

margin = first.predict(dtrain, output_margin=True)
boosted = xgb.train(param, xgb.DMatrix(X[:600], label=y[:600], base_margin=margin), num_boost_round=10)
with_margin = boosted.predict(xgb.DMatrix(X[600:], base_margin=first.predict(dtest, output_margin=True)))
print("better with ten rounds more:", np.mean((with_margin - y[600:]) ** 2) < np.mean((part - y[600:]) ** 2))

bst = xgb.Booster(param, [dtrain])
for iteration in range(5):
    bst.update(dtrain, iteration)
print("rounds:", bst.num_boosted_rounds())
