"""What is evaluated, where training runs, and what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hornbeam.params.rows.row import parameter


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # Params has these
class EvaluationRows:
    """Rows of the groups Evaluation, Machine."""

    metric: str | tuple[str, ...] | None = parameter(
        "metric",
        None,
        "Evaluation",
        "What to measure on the validation sets: a name, several (a list, or separated by commas), `none` for nothing; "
        "None: the objective's own metric.",
        aliases=("metrics", "metric_types", "eval_metric"),
        in_model=False,
    )
    eval_at: tuple[int, ...] = parameter(
        "ranks",
        (1, 2, 3, 4, 5),
        "Evaluation",
        "Ranks at which `ndcg` and `map` are measured: `ndcg` stands for `ndcg@1`, `ndcg@2`, ... A list, or a string "
        '(`"1,3"`). A metric that names its rank itself (`ndcg@10`) does not look here.',
        aliases=("ndcg_eval_at", "ndcg_at", "map_eval_at", "map_at"),
        in_model=False,
    )
    multi_error_top_k: int = parameter(
        "int",
        1,
        "Evaluation",
        "`multi_error` counts a row as right when its class is among this many with the highest scores.",
        low=1,
        in_model=False,
    )
    auc_mu_weights: tuple[float, ...] | None = parameter(
        "costs",
        None,
        "Evaluation",
        "`auc_mu`: matrix of misclassification costs, row after row, `num_class` squared numbers; None: all are 1. Its "
        "diagonal counts as 0.",
        in_model=False,
    )
    metric_freq: int = parameter(
        "int",
        1,
        "Evaluation",
        "Rounds from one evaluation to the next.",
        aliases=("output_freq",),
        low=1,
        in_model=False,
    )
    early_stopping_round: int = parameter(
        "int",
        0,
        "Evaluation",
        "Stop when no validation metric got better for this many rounds; 0 or less: never.",
        aliases=("early_stopping_rounds", "early_stopping", "n_iter_no_change"),
        none_below=0,
        in_model=False,
    )
    early_stopping_min_delta: float = parameter(
        "float", 0.0, "Evaluation", "A metric got better when it gained more than this.", low=0.0, in_model=False
    )
    first_metric_only: bool = parameter(
        "bool", False, "Evaluation", "Only the first metric decides on early stopping.", in_model=False
    )

    device: str = parameter(
        "device",
        "auto",
        "Machine",
        "Where to train: `cpu`, `cuda`, `cuda:1`, `opencl`, `opencl:0`, `gpu` (the first usable CUDA device, else the "
        "first of OpenCL) or `reference`; `auto`: the CPU, or a GPU where that is expected to be done first. The model "
        "is the same.",
        aliases=("device_type",),
        in_model=False,
    )
    num_threads: int = parameter(
        "threads",
        0,
        "Machine",
        "Threads on the CPU; 0 or -1: all that the process may use. The model is the same.",
        aliases=("num_thread", "nthread", "nthreads", "n_jobs"),
        low=-1,
        in_model=False,
    )
    tree_learner: str = parameter(
        "choice",
        "serial",
        "Machine",
        "How several workers share the work. `serial`, `data`, `feature`: they add up histograms, and the model is "
        "that of one process. `voting`: an approximation that sends less where features are many; only histograms of "
        "the 2 * `top_k` features of a node that have most votes are added up, and the model depends on which rows "
        "each worker has. In one process they are all the same.",
        aliases=("tree", "tree_type", "tree_learner_type"),
        choices={
            "serial": "serial",
            **dict.fromkeys(("data", "data_parallel"), "data"),
            **dict.fromkeys(("feature", "feature_parallel"), "feature"),
            **dict.fromkeys(("voting", "voting_parallel"), "voting"),
        },
        in_model=False,
    )
    top_k: int = parameter(
        "int",
        20,
        "Machine",
        'Features of a node that a worker votes for, with `tree_learner="voting"`.',
        aliases=("topk",),
        low=1,
        in_model=False,
    )
    histogram_pool_size: float = parameter(
        "float",
        -1.0,
        "Machine",
        "Megabytes for histograms of earlier nodes; 0 or less: up to 2048, and 1024 for data that are stored sparsely. "
        "The model is the same.",
        aliases=("hist_pool_size",),
        high=1e12,
        none_below=math.ulp(0.0),  # zero too leaves it to us
        in_model=False,
    )
    device_memory_limit: float = parameter(
        "float",
        -1.0,
        "Machine",
        "Megabytes of a GPU's memory that a training may take; 0 or less: all there is. Where it is short, what only "
        "makes training faster is left out: a second layout of the bins, and histograms of earlier nodes; then the "
        "bins stay in host memory. The model is the same.",
        high=1e12,
        none_below=math.ulp(0.0),
        in_model=False,
    )
    verbosity: int = parameter(
        "int",
        1,
        "Machine",
        "Below 0: errors only; 0: warnings too; 1: information too; above: details.",
        aliases=("verbose",),
        in_model=False,
    )
