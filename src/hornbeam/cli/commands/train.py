"""`hornbeam train`: a model from a file of data."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam train train.csv --label y -o m.json objective=binary num_leaves=63",
    "hornbeam train 'part-*.parquet' -l y -v valid.csv early_stopping_round=20",
    "hornbeam train --config train.conf num_iterations=200",
    "hornbeam train 'part-*.parquet' -l y --cache /scratch -o m.json",
    "zcat train.csv.gz | hornbeam train - -l 0 -o model.json",
    "mpiexec -n 4 hornbeam train 'part-*.parquet' -l y -o m.json",
)
"""Shown at the end of the help."""


def train(
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Training data; - reads from standard input.")
    ] = None,
    pairs: options.Pairs = None,
    label: options.Label = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Model file; - is standard output.")
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option("--valid", "-v", metavar="[NAME=]FILE", help="Data to evaluate as training goes; repeatable."),
    ] = None,
    config: options.Config = None,
    weight: options.Weight = None,
    query: options.Query = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    init_model: Annotated[str | None, typer.Option("--init-model", metavar="FILE", help="Model to train on.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="FILE", help="Keeps the state; a training goes on from it.")
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option("--cache", metavar="FOLDER", help="Keeps bins in a file there: for data larger than memory."),
    ] = None,
    log_every: Annotated[int, typer.Option("--log-every", metavar="N", help="Log metrics every N iterations.")] = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a model on a file of data.

    The model is the one that Python gives on the same file, to the fingerprint. The processes of mpiexec train it
    together, each on some of the rows.
    """
    import hornbeam as hb
    from hornbeam.cli.failures import Interrupted
    from hornbeam.cli.parameters import file_and_pairs, read_parameters
    from hornbeam.cli.printing import be_quiet
    from hornbeam.cli.processes import is_first, trainer
    from hornbeam.cli.tables import STANDARD, Roles, check_writable

    quiet = quiet or not is_first()
    be_quiet(quiet)
    data, given = file_and_pairs(data, pairs, config)
    params, places = read_parameters(config, given)
    data = data or places.pop("data", None)
    if data is None:
        raise hb.DataError("which data? Pass a file, as hornbeam train train.csv --label y")
    output = output or places.pop("output", "model.json")
    init_model = init_model or places.pop("init_model", None)
    check_writable(output)
    if json and output == STANDARD:
        raise hb.ParameterError("--json with -o -: the model goes to standard output itself; name a file for it")
    named = valid if valid is not None else [part for part in str(places.pop("valid", "")).split(",") if part]
    files = _named_files(named)
    roles = Roles(label, weight, query, ignore, header, places)
    start = time.perf_counter()
    train_set = roles.dataset(data, cache=cache)
    valid_sets = {name: roles.dataset(path, train_set, cache) for name, path in files.items()}
    callbacks: list[Any] = [] if quiet else [hb.progress()]
    if log_every > 0 and not quiet:
        callbacks.append(hb.log_evaluation(log_every))
    booster = trainer()(
        params, train_set, valid_sets=valid_sets, callbacks=callbacks, init_model=init_model, checkpoint=checkpoint
    )
    if booster.interrupted:
        kept = f"{checkpoint!r} keeps the state: the same command goes on" if checkpoint else "nothing was written"
        raise Interrupted(f"interrupted after {booster.n_iterations} iterations; {kept}")
    if not is_first():
        return
    if output == STANDARD:
        sys.stdout.buffer.write(booster.to_bytes())
        return
    booster.save(output)
    _show(booster, train_set, output, time.perf_counter() - start, json)


def _named_files(texts: list[str]) -> dict[str, str]:
    """Return the validation sets by name: NAME=FILE, or FILE, which is called by the stem of its name."""
    from pathlib import Path

    from hornbeam.core.errors import ParameterError

    files: dict[str, str] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not (equals and name.isidentifier()):
            name, path = Path(text).name.split(".")[0].rstrip("*-") or "valid", text
        if name in files:
            raise ParameterError(f"--valid: {files[name]!r} and {path!r} are both called {name!r}; pass NAME=FILE")
        files[name] = path
    return files


def _show(booster: Any, train_set: Any, output: str, seconds: float, json: bool) -> None:
    from hornbeam.cli.printing import print_facts, print_json

    facts: dict[str, Any] = {
        "model": output,
        "fingerprint": booster.fingerprint(),
        "objective": booster.objective.name,
        "rows": train_set.n_rows,
        "features": train_set.n_features,
        "iterations": booster.n_iterations,
        "best_iteration": booster.n_best or None,
        "seconds": round(seconds, 3),
    }
    if json:
        print_json({**facts, "best_score": booster.best_score, "eval_history": booster.eval_history})
        return
    scores = {f"{name} {metric}": value for name, own in booster.best_score.items() for metric, value in own.items()}
    print_facts({name.replace("_", " "): value for name, value in {**facts, **scores}.items() if value is not None})
