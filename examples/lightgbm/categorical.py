"""Categorical features of pandas, as LightGBM's users write it."""

import numpy as np
import pandas as pd

import hornbeam as lgb

rng = np.random.default_rng(4)
n = 1000
frame = pd.DataFrame({
    "size": rng.normal(size=n),
    "colour": pd.Categorical(np.array(["red", "green", "blue", "grey"])[rng.integers(0, 4, n)]),
    "shop": pd.Categorical(rng.integers(0, 12, n)),
})  # fmt: skip
y = frame["size"] + 2.0 * (frame["colour"] == "green") + (frame["shop"].astype(int) % 3) + 0.2 * rng.normal(size=n)

train = lgb.Dataset(frame[:800], y[:800], categorical_feature=["colour", "shop"])
gbm = lgb.train({"num_leaves": 15, "min_data_per_group": 10, "verbose": -1}, train, 40)
error = np.mean((gbm.predict(frame[800:]) - y[800:]) ** 2) ** 0.5
print(f"rmse: {error:.4f}")
table = gbm.trees_to_dataframe()
print("splits by sets:", bool((table["decision_type"] == "==").any()))
unseen = frame[800:].assign(shop=pd.Categorical([99] * 200))
print("unseen levels predict:", bool(np.isfinite(gbm.predict(unseen)).all()))
