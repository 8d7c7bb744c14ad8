"""`hornbeam verify`: whether this machine gives the models that every machine gives."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam verify",
    "hornbeam verify --device cuda --only binary",
)
"""Shown at the end of the help."""


def verify(
    device: Annotated[
        str | None, typer.Option("--device", metavar="DEVICE", help="Device to verify; else all usable ones.")
    ] = None,
    only: Annotated[str, typer.Option("--only", metavar="TEXT", help="Cases whose name has this in it.")] = "",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train the golden models on this machine and compare fingerprints.

    The exit code is 0 where all are the same, and 1 where one differs. `python -m hornbeam.testing.verify` has further
    checks of a device.
    """
    import numpy as np

    import hornbeam as hb
    from hornbeam.backends.devices import choose_device
    from hornbeam.cli.failures import DIFFERS
    from hornbeam.cli.printing import be_quiet, print_json, print_table
    from hornbeam.params.params import BY_NAME
    from hornbeam.testing.verify import golden_checks

    be_quiet(quiet)
    if device == "auto":
        raise hb.ParameterError("--device auto verifies whatever is chosen; name a device of `hornbeam devices`")
    usable = [info.name for info in hb.devices() if info.usable and info.name != "reference"]
    chosen = usable if device is None else [choose_device(BY_NAME["device"].check(device))]
    checks = [(where, *named) for where in chosen for named in golden_checks(where) if only in named[0]]
    if not checks:
        raise hb.ParameterError(f"--only {only!r}: no golden case has this in its name")
    rows: list[dict[str, Any]] = []
    with _progress(len(checks), quiet or json) as advance, np.errstate(all="ignore"):
        for where, name, check in checks:
            start = time.perf_counter()
            try:
                difference = check()
            except hb.HornbeamError as error:
                difference = str(error)
            seconds = round(time.perf_counter() - start, 3)
            case = name.removeprefix("golden: ")
            rows.append({"device": where, "case": case, "seconds": seconds, "difference": difference})
            advance(case)
    wrong = [row for row in rows if row["difference"]]
    if json:
        print_json({"passed": not wrong, "cases": len(rows), "differ": len(wrong), "results": rows})
    else:
        if wrong:
            print_table(["device", "case", "difference"], [[r["device"], r["case"], r["difference"]] for r in wrong])
        print(f"{len(rows) - len(wrong)} of {len(rows)} golden models are the same on {', '.join(chosen)}")
    raise typer.Exit(DIFFERS if wrong else 0)


def _progress(total: int, quiet: bool) -> Any:
    """Return a bar on standard error as a context, whose value is called after every case."""
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    @contextmanager
    def bar() -> Any:
        console = Console(stderr=True)
        if quiet or not console.is_terminal:
            yield lambda text: None
            return
        columns = TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("", total=total)
            yield lambda text: progress.update(task, advance=1, description=text)

    return bar()
