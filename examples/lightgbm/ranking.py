"""Ranking by queries, as LightGBM's users write it."""

import numpy as np

import hornbeam as lgb
from hornbeam import HornbeamRanker

rng = np.random.default_rng(3)
group = np.full(40, 15)
X = rng.normal(size=(600, 5))
relevance = np.clip(np.rint(X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=600) + 1), 0, 4).astype(int)

train = lgb.Dataset(X[:450], relevance[:450], group=group[:30])
valid = lgb.Dataset(X[450:], relevance[450:], group=group[30:], reference=train)
params = {"objective": "lambdarank", "metric": "ndcg", "ndcg_eval_at": [3, 5], "num_leaves": 7, "verbose": -1}
record = {}
lgb.train(params, train, 20, valid_sets=[valid], valid_names=["valid"], callbacks=[lgb.record_evaluation(record)])
print(f"ndcg@5: {record['valid']['ndcg@5'][-1]:.4f}")

ranker = HornbeamRanker(n_estimators=20, num_leaves=7, verbose=-1)
ranker.fit(
    X[:450], relevance[:450], group=group[:30], eval_set=[(X[450:], relevance[450:])], eval_group=[group[30:]],
    eval_at=[5],
)  # fmt: skip
print(f"ranker ndcg@5: {ranker.evals_result_['valid_0']['ndcg@5'][-1]:.4f}")
