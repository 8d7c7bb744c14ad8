"""`hornbeam predict`: predictions of a model for a file of data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam predict model.json test.csv -o predictions.csv",
    "hornbeam predict model.json test.parquet --keep id -o out.parquet",
    "cat test.csv | hornbeam predict model.json - --raw > scores.csv",
)
"""Shown at the end of the help."""


def predict(
    model: options.Model,
    data: options.Data,
    output: options.TableOutput = "-",
    raw: Annotated[bool, typer.Option("--raw", help="Raw scores.")] = False,
    leaf: Annotated[bool, typer.Option("--leaf", help="Number of the leaf in every tree.")] = False,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="COLUMNS", help="Columns of the data to copy: id,day.")
    ] = None,
    iterations: options.Iterations = None,
    device: options.Device = None,
    header: options.Header = None,
    format: options.Format = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict for every row of a file.

    Columns are found by their names: the data may have more of them than the model, in any order. What comes out is a
    column `prediction`, or one a class. With --json it is a list of rows, or what was written where --output names a
    file.
    """
    import hornbeam as hb
    from hornbeam.cli.printing import be_quiet, print_json
    from hornbeam.cli.tables import STANDARD, check_writable, output_format, write_table

    be_quiet(quiet)
    check_writable(output)
    kind = output_format(output, format)
    booster = hb.load(model)
    columns = [name for name in (keep or "").split(",") if name]
    table, kept = read_rows(booster, data, columns, header)
    values = booster.predict(table, raw_score=raw, pred_leaf=leaf, num_iteration=iterations, device=device)
    named = {**kept, **name_columns(values, "leaf" if leaf else "score" if raw else "prediction")}
    if json and output == STANDARD:
        rows = zip(*(column.tolist() for column in named.values()), strict=True)
        print_json([dict(zip(named, row, strict=True)) for row in rows])
        return
    write_table(named, output, kind)
    if json:
        facts = {"model": model, "fingerprint": booster.fingerprint(), "data": data, "output": output}
        print_json({**facts, "rows": len(values), "columns": list(named)})


def read_rows(booster: Any, data: str, keep: list[str], header: bool | None) -> tuple[Any, dict[str, Any]]:
    """Return the columns of a model, and other columns by name."""
    from hornbeam.cli.tables import source_of
    from hornbeam.core.errors import DataError
    from hornbeam.data.sources.frame import as_frame
    from hornbeam.data.sources.loading import load_table
    from hornbeam.data.sources.series_values import series_values
    from hornbeam.data.sources.wanted_columns import Wanted

    names = (booster.feature_names, booster.column_names or booster.feature_names)
    table = load_table(source_of(data), data, Wanted(names, tuple(keep), booster.n_features, header))
    if not keep:
        return table, {}
    frame = as_frame(table)
    if frame is None or not set(keep) <= set(frame.columns):
        there = [] if frame is None else list(frame.columns)
        missing = [name for name in keep if name not in there]
        raise DataError(f"--keep {','.join(missing)}: {data!r} has no such column")
    rest = [name for name in frame.columns if name not in keep]
    if len(rest) < booster.n_features:
        rest = [name for name in frame.columns if name not in keep or name in booster.feature_names]
    return frame.select(rest).to_native(), {name: series_values(frame[name]) for name in keep}


def name_columns(values: Any, stem: str) -> dict[str, Any]:
    """Return the columns of predictions by name."""
    if values.ndim == 1:
        return {stem: values}
    return {f"{stem}_{place}": values[:, place] for place in range(values.shape[1])}
