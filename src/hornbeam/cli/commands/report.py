"""`hornbeam report`: a page about a model and its quality."""

from __future__ import annotations

from typing import Annotated

import typer

from hornbeam.cli import options

EXAMPLES = ("hornbeam report model.json test.csv --label y -o report.html",)
"""Shown at the end of the help."""


def report(
    model: options.Model,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Data with labels to judge the model by.", show_default=False)
    ] = None,
    label: options.Label = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = "report.html",
    train: Annotated[
        str | None, typer.Option("--train", metavar="FILE", help="Training data: shows drift, and the metrics on them.")
    ] = None,
    slices: Annotated[
        list[str] | None, typer.Option("--slice", metavar="FEATURE", help="Metrics by its values; repeatable.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="No data: what the model alone tells.")] = False,
    weight: options.Weight = None,
    query: options.Query = None,
    header: options.Header = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page (HTML) about a model and how well it does on data with labels."""
    import hornbeam as hb
    from hornbeam.cli.printing import be_quiet, print_facts, print_json
    from hornbeam.cli.tables import Roles, check_writable

    be_quiet(quiet)
    if (data is None) != alone:
        raise hb.DataError(
            f"which data shall the model be judged by? hornbeam report {model} test.csv --label y; or pass --alone "
            "without data, for what the model alone tells"
        )
    check_writable(output)
    booster = hb.load(model)
    roles = Roles(label, weight, query, None, header)
    judged = None if data is None else roles.labelled(data, booster)[1]
    trained = None if train is None else roles.labelled(train, booster)[1]
    booster.report(output, judged, train=trained, slices=slices, title=title)
    facts = {"report": output, "model": model, "fingerprint": booster.fingerprint()}
    (print_json if json else print_facts)(facts if judged is None else {**facts, "rows": judged.n_rows})
