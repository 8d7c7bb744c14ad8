"""`hornbeam explain`: what every feature adds to every prediction."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam explain model.json test.csv",
    "hornbeam explain model.json test.csv -o contributions.parquet",
)
"""Shown at the end of the help."""


def explain(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Contributions of every row; - is stdout.")
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", help="Features to show.")] = 20,
    iterations: options.Iterations = None,
    device: options.Device = None,
    header: options.Header = None,
    format: options.Format = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what every feature adds to raw scores (SHAP values).

    Without --output: the mean size of each feature's contributions. With it: a column a feature and `bias`, which add
    up to the raw score of a row (one such set a class).
    """
    import numpy as np

    import hornbeam as hb
    from hornbeam.cli.commands.predict import read_rows
    from hornbeam.cli.printing import be_quiet, print_json, print_table
    from hornbeam.cli.tables import STANDARD, check_writable, output_format, write_table

    be_quiet(quiet)
    kind = "csv"
    if output is not None:
        check_writable(output)
        kind = output_format(output, format)
    booster = hb.load(model)
    table, _ = read_rows(booster, data, [], header)
    choices: dict[str, Any] = {"pred_contrib": True, "num_iteration": iterations, "device": device}
    found = booster.predict(table, **choices)
    values = np.asarray(found.toarray() if hasattr(found, "toarray") else found)
    names = [*booster.feature_names, "bias"]
    if booster.n_outputs > 1:
        names = [f"{name}_{place}" for place in range(booster.n_outputs) for name in names]
    if output is not None:
        write_table(dict(zip(names, values.T, strict=True)), output, kind)
        if json and output != STANDARD:
            print_json({"model": model, "data": data, "output": output, "rows": len(values), "columns": names})
        return
    sizes = np.abs(values).mean(axis=0).reshape(booster.n_outputs, -1)[:, :-1].sum(axis=0)
    ranked = sorted(zip(booster.feature_names, sizes.tolist(), strict=True), key=lambda row: -row[1])
    if json:
        print_json({"model": model, "data": data, "rows": len(values), "mean_contribution": dict(ranked)})
        return
    print_table(["feature", "mean |contribution|"], ranked[:top])
