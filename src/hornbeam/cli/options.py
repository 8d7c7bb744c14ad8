"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

_COLUMNS, _OUT = "Columns of the data", "Output"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="File, folder or quoted pattern: Parquet, CSV, Arrow or LibSVM; - reads from standard input.",
        show_default=False,
    ),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)]
Pairs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Parameters, as num_leaves=63 metric=auc,l2.", show_default=False
    ),
]  # fmt: skip
Config = Annotated[
    str | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="Parameters from a TOML file, or from LightGBM's lines key = value."
    ),
]  # fmt: skip
Label = Annotated[
    str | None,
    typer.Option(
        "--label", "-l", metavar="COLUMN", help="Column of labels, by name or position.", rich_help_panel=_COLUMNS
    ),
]  # fmt: skip
Weight = Annotated[
    str | None, typer.Option("--weight", metavar="COLUMN", help="Column of weights.", rich_help_panel=_COLUMNS)
]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="COLUMN", help="Column of query ids, for ranking.", rich_help_panel=_COLUMNS),
]
Ignore = Annotated[
    str | None,
    typer.Option("--ignore", metavar="COLUMNS", help="Columns that are no features: a,b.", rich_help_panel=_COLUMNS),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of CSV holds names; by itself: unless it holds numbers alone.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.", rich_help_panel=_OUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.", rich_help_panel=_OUT)]
Device = Annotated[
    str | None, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, opencl:0, auto; it cannot be seen.")
]
Iterations = Annotated[
    int | None, typer.Option("--iterations", metavar="N", help="Use the first N iterations; else the best.")
]
TableOutput = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="Where to write; - is standard output.",
                      rich_help_panel=_OUT)
]  # fmt: skip
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help="csv, parquet, arrow or libsvm; else by the end of the name.",
        rich_help_panel=_OUT,
    ),
]  # fmt: skip
