"""The numbers that the paper prints, by its tables: Zhang, Si, Hsieh, "GPU-acceleration for Large-scale Tree Boosting".

Metrics are by data set, metric and column; a column is (method, device). None: the paper has no number there, "OOM" and
"N/A" are its words.
"""

from __future__ import annotations

K255, K63, K15, EXACT, SKETCHING = "k255", "k63", "k15", "exact", "sketching"

HARDWARE = (
    ("AMD Radeon RX 480", "5,161 GFLOPS", "8 GB", "256 GB/s"),
    ("NVIDIA GTX 1080", "8,228 GFLOPS", "8 GB", "320 GB/s"),
    ("2x Xeon E5-2683v3, 28 cores", "1,792 GFLOPS", "192 GB", "133 GB/s"),
)
"""Table 2: name, peak FLOPS, memory, peak bandwidth."""

MEMORY: dict[str, tuple[int, int | str]] = {
    "higgs": (611, "OOM"),
    "mslr": (413, "OOM"),
    "yahoo": (291, 4165),
    "epsilon": (901, "OOM"),
    "expo": (405, "OOM"),
    "bosch": (1067, 7139),
}
"""Table 3, MB: Histogram on a GPU, Exact on a GPU of 8 GB."""

_COLUMNS = (
    (K255, "cpu"),
    (K63, "cpu"),
    (K255, "gpu"),
    (K63, "gpu"),
    (EXACT, "cpu"),
    (SKETCHING, "cpu"),
    (EXACT, "gpu"),
)

_METRICS: dict[tuple[str, str], tuple[float | str, ...]] = {
    ("higgs", "auc"): (0.845612, 0.845239, 0.845612, 0.845209, 0.839593, 0.841218, "N/A"),
    ("mslr", "ndcg@1"): (0.521265, 0.521392, 0.521789, 0.522163, 0.480545, 0.485436, "OOM"),
    ("mslr", "ndcg@3"): (0.503153, 0.505753, 0.503886, 0.504089, 0.465276, 0.468778, "OOM"),
    ("mslr", "ndcg@5"): (0.509236, 0.510391, 0.509861, 0.510095, 0.471930, 0.472537, "OOM"),
    ("mslr", "ndcg@10"): (0.527835, 0.527304, 0.528009, 0.527059, 0.491390, 0.491403, "OOM"),
    ("yahoo", "ndcg@1"): (0.730824, 0.730165, 0.730936, 0.732257, 0.720044, 0.720101, 0.721566),
    ("yahoo", "ndcg@3"): (0.738687, 0.737243, 0.73698, 0.739474, 0.717639, 0.720497, 0.718576),
    ("yahoo", "ndcg@5"): (0.756609, 0.755729, 0.756206, 0.757007, 0.738333, 0.739844, 0.738822),
    ("yahoo", "ndcg@10"): (0.79655, 0.795827, 0.795894, 0.797302, 0.781000, 0.782008, 0.781197),
    ("epsilon", "auc"): (0.950243, 0.949952, 0.950057, 0.949876, 0.949725, 0.949767, "OOM"),
    ("expo", "auc"): (0.776217, 0.771566, 0.776285, 0.77098, "N/A", "N/A", "OOM"),
    ("bosch", "auc"): (0.718115, 0.721791, 0.717184, 0.724761, 0.700607, 0.699601, 0.705512),
}
"""Table 4."""

_FEW_BINS: dict[tuple[str, str], tuple[float, float]] = {
    ("higgs", "auc"): (0.841066, 0.840748),
    ("epsilon", "auc"): (0.948365, 0.948365),
    ("yahoo", "ndcg@1"): (0.729647, 0.73114),
    ("yahoo", "ndcg@3"): (0.736445, 0.735868),
    ("yahoo", "ndcg@5"): (0.754607, 0.754203),
    ("yahoo", "ndcg@10"): (0.795273, 0.795584),
    ("expo", "auc"): (0.743329, 0.744078),
    ("mslr", "ndcg@1"): (0.518653, 0.516388),
    ("mslr", "ndcg@3"): (0.501697, 0.501691),
    ("mslr", "ndcg@5"): (0.507193, 0.50663),
    ("mslr", "ndcg@10"): (0.524603, 0.524722),
    ("bosch", "auc"): (0.716677, 0.717005),
}
"""Table 6: 15 bins on CPU and GPU. Its other columns are those of Table 4."""

METRICS: dict[tuple[str, str], dict[tuple[str, str], float | str]] = {
    key: dict(zip(_COLUMNS, values, strict=True)) | dict(zip(((K15, "cpu"), (K15, "gpu")), _FEW_BINS[key], strict=True))
    for key, values in _METRICS.items()
}

SECONDS: dict[tuple[str, str, str], str] = {
    ("epsilon", EXACT, "cpu"): "over 4100 (28 cores)",
    ("epsilon", K63, "gpu"): "165 (GTX 1080), 300 (RX 480)",
}
"""Seconds of 500 iterations that the text names; the figure has no numbers."""

SPEED_UPS: dict[str, str] = {
    "higgs": "2 to 3",
    "mslr": "2 to 3",
    "epsilon": "7 to 8 (25 against Exact)",
    "expo": "2 to 3",
    "bosch": "7 to 8 (25 against Exact)",
}
"""Histogram on the GTX 1080 with 63 bins against Histogram on 28 cores, as the text has them."""

PROFILE: dict[str, dict[str, str]] = {
    "BeforeFindBestSplit()": {"higgs": "5.3%", "epsilon": "< 0.1%", "yahoo": "0.3%"},
    "ConstructHistogram()": {"higgs": "80.8%", "epsilon": "87.6%", "yahoo": "75.7%"},
    "FindBestThreshold()": {"higgs": "0.4%", "epsilon": "5.10%", "yahoo": "6.80%"},
    "Split()": {"higgs": "6.3%", "epsilon": "< 0.1%", "yahoo": "4.30%"},
}
"""Table 5: share of the time of LightGBM's functions on the CPU."""
