"""The command `hornbeam`: all commands put together."""

from __future__ import annotations

from typing import Annotated

import typer

from hornbeam.cli.commands import (
    convert,
    cv,
    devices,
    diff,
    evaluate,
    explain,
    inspect,
    predict,
    report,
    train,
    verify,
    warmup,
)
from hornbeam.cli.failures import Commands

app = typer.Typer(
    name="hornbeam",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

GROUPS = {
    "Models": (train, predict, evaluate, cv),
    "What a model is": (inspect, explain, report, convert, diff),
    "This machine": (devices, verify, warmup),
}
"""Commands by their section of the help: a module each, with a function of its name."""

for title, modules in GROUPS.items():
    for module in modules:
        command = module.__name__.rpartition(".")[2]
        examples = "\n\n".join(["Examples:", *(f"$ {line}" for line in module.EXAMPLES)])
        app.command(command, rich_help_panel=title, epilog=examples)(getattr(module, command))


def _show_version(wanted: bool) -> None:
    if wanted:
        from hornbeam import __version__

        print(f"hornbeam {__version__}")
        raise typer.Exit


@app.callback()
def hornbeam(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Gradient boosted decision trees: the same model, bit for bit, on every device.

    Exit codes: 0 fine, 1 models differ or the machine does not pass, 2 bad input, 130 Ctrl-C.
    """
