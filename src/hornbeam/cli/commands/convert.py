"""`hornbeam convert`: a model in the format of another library, and back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam convert model.json --to lightgbm -o model.txt",
    "hornbeam convert lightgbm.txt -o model.json",
)
"""Shown at the end of the help."""


def convert(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file of Hornbeam, LightGBM or XGBoost.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where to write.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="hornbeam, lightgbm, xgboost-json, xgboost-ubj, onnx, "
            "treelite, c or python; else by the end of the name.",
        ),
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Write a format that cannot say all of the model exactly.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Write a model in another format."""
    import hornbeam as hb
    from hornbeam.cli.printing import print_facts, print_json
    from hornbeam.cli.tables import check_writable

    kind = to or _by_name(output)
    choices: dict[str, Any] = {}
    if kind != "hornbeam":
        choices = {"format": kind, "approximate": approximate}
    check_writable(output)
    booster = hb.load(model)
    booster.save(output, **choices)
    facts = {"written": output, "format": kind, "fingerprint": booster.fingerprint(), "trees": len(booster.trees)}
    (print_json if json else print_facts)(facts)


BY_END = {".json": "hornbeam", ".txt": "lightgbm", ".ubj": "xgboost-ubj", ".onnx": "onnx", ".c": "c", ".py": "python"}
"""Formats by the ends of names."""


def _by_name(output: str) -> str:
    from pathlib import Path

    from hornbeam.core.errors import ParameterError

    found = BY_END.get(Path(output).suffix.lower())
    if found is None:
        raise ParameterError(f"{output!r}: the name does not say the format; pass --to, as --to lightgbm")
    return found
