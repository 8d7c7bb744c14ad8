"""`hornbeam evaluate`: metrics of a model on a file of data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam evaluate model.json test.csv --label y",
    "hornbeam evaluate model.json test.parquet -l y -m auc,binary_logloss --json",
)
"""Shown at the end of the help."""


def evaluate(
    model: options.Model,
    data: options.Data,
    label: options.Label = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", metavar="NAMES", help="Metrics: auc,binary_logloss.")
    ] = None,
    weight: options.Weight = None,
    query: options.Query = None,
    header: options.Header = None,
    iterations: options.Iterations = None,
    device: options.Device = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Evaluate a model on a file with labels.

    The values are those that training shows on the same data.
    """
    import hornbeam as hb
    from hornbeam.cli.printing import be_quiet, print_json, print_table
    from hornbeam.cli.tables import Roles

    be_quiet(quiet)
    booster = hb.load(model)
    table, dataset = Roles(label, weight, query, None, header).labelled(data, booster)
    values = evaluate_model(booster, table, dataset, metric, iterations, device)
    if json:
        print_json({"model": model, "data": data, "rows": dataset.n_rows, "metrics": values})
        return
    print_table(["metric", "value"], list(values.items()))


def evaluate_model(
    booster: Any, table: Any, dataset: Any, metric: str | None, iterations: int | None, device: str | None
) -> dict[str, float]:
    """Return the values of metrics by name; None: the metric of the model's objective."""
    import numpy as np

    from hornbeam.backends.evaluation import arithmetic_on
    from hornbeam.core.cpus import resolve_threads
    from hornbeam.core.errors import ParameterError
    from hornbeam.metrics import get_metrics
    from hornbeam.params.params import Params

    if booster.objective.name == "custom" and metric is None:
        raise ParameterError("the model has an objective function, and no metric of its own; pass --metric")
    known = {name: value for name, value in booster.kept_params.items() if name not in ("metric", "objective")}
    if booster.objective.name != "custom":
        known["objective"] = booster.objective.name
    metrics = get_metrics(Params.from_dict({**known, "metric": metric}), booster.objective)
    for one in metrics:
        one.check(dataset, "the data")
    scores = booster.predict(table, raw_score=True, num_iteration=iterations, device=device)
    raw = np.ascontiguousarray(np.atleast_2d(scores.T))
    arithmetic = arithmetic_on("cpu", resolve_threads(0))
    pairs = [pair for one in metrics for pair in one.evaluate(dataset, raw, booster.objective, arithmetic)]
    return dict(pairs)
