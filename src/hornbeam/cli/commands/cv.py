"""`hornbeam cv`: cross-validation on a file of data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam cv train.csv --label y objective=binary metric=auc",
    "hornbeam cv train.parquet -l y -k 10 early_stopping_round=20 --json",
)
"""Shown at the end of the help."""


def cv(
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Data; - reads from standard input.")] = None,
    pairs: options.Pairs = None,
    label: options.Label = None,
    config: options.Config = None,
    folds: Annotated[int, typer.Option("--folds", "-k", metavar="N", help="Number of folds.")] = 5,
    stratified: Annotated[
        bool, typer.Option("--stratified/--no-stratified", help="Keep the share of each class.")
    ] = True,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Deal rows by the seed.")] = True,
    weight: options.Weight = None,
    query: options.Query = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Cross-validate parameters on a file of data.

    Shows mean and standard deviation over the folds at the last iteration, or at the best with early_stopping_round.
    """
    import hornbeam as hb
    from hornbeam.cli.parameters import file_and_pairs, read_parameters
    from hornbeam.cli.printing import be_quiet, print_json, print_table
    from hornbeam.cli.processes import n_processes
    from hornbeam.cli.tables import Roles

    if n_processes() > 1:
        raise hb.ParameterError("cv under mpiexec: folds are trained in one process; start it without mpiexec")
    be_quiet(quiet)
    data, given = file_and_pairs(data, pairs, config)
    params, places = read_parameters(config, given)
    data = data or places.pop("data", None)
    if data is None:
        raise hb.DataError("which data? Pass a file, as hornbeam cv train.csv --label y")
    dataset = Roles(label, weight, query, ignore, header, places).dataset(data)
    callbacks: list[Any] = [] if quiet else [hb.progress()]
    history = hb.cv(params, dataset, nfold=folds, stratified=stratified, shuffle=shuffle, callbacks=callbacks)
    if json:
        print_json({"data": data, "folds": folds, "rows": dataset.n_rows, "history": history})
        return
    names = [name.removesuffix("-mean") for name in history if name.endswith("-mean")]
    rows = [[name, *(history[f"{name}-{part}"][-1] for part in ("mean", "stdv")), len(history[f"{name}-mean"])]
            for name in names]  # fmt: skip
    print_table(["metric", "mean", "stdv", "iterations"], rows)
