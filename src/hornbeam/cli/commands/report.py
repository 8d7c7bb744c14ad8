"""`hornbeam report`: a page about a model and its quality."""

from __future__ import annotations

from typing import Annotated

import typer

from hornbeam.cli import options

EXAMPLES = ("hornbeam report model.json test.csv --label y -o report.html",)
"""Shown at the end of the help."""


def report(
    model: options.Model,
    data: options.Data,
    label: options.Label = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = "report.html",
    weight: options.Weight = None,
    query: options.Query = None,
    header: options.Header = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page (HTML) about a model and how well it does on data with labels."""
    import hornbeam as hb
    from hornbeam.cli.packages import require
    from hornbeam.cli.printing import be_quiet, print_facts, print_json
    from hornbeam.cli.tables import Roles, check_writable

    be_quiet(quiet)
    require("report")
    check_writable(output)
    booster = hb.load(model)
    _, dataset = Roles(label, weight, query, None, header).labelled(data, booster)
    booster.report(output, dataset)
    facts = {"report": output, "model": model, "fingerprint": booster.fingerprint(), "rows": dataset.n_rows}
    (print_json if json else print_facts)(facts)
