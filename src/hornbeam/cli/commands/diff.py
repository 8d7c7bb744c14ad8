"""`hornbeam diff`: where two models differ."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam diff old.json new.json",
    "hornbeam diff old.json new.json test.csv --json",
)
"""Shown at the end of the help."""


def diff(
    first: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="MODEL", help="Another one.", show_default=False)],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Data to compare predictions on.")] = None,
    header: options.Header = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare two models: parameters, features, trees, and predictions on data.

    The exit code is 0 where they are the same, to the bit, and 1 where they differ.
    """
    import hornbeam as hb
    from hornbeam.cli.failures import DIFFERS
    from hornbeam.cli.printing import be_quiet, print_json

    be_quiet(quiet)
    models = hb.load(first), hb.load(second)
    found = compare(*models)
    if data is not None:
        found["predictions"] = _compare_predictions(models, data, header)
    same = bool(found["same"])
    if json:
        print_json({"first": first, "second": second, **found})
    else:
        _show(found)
    raise typer.Exit(0 if same else DIFFERS)


def compare(first: Any, second: Any) -> dict[str, Any]:
    """Return where two models differ."""
    from hornbeam.params.params import BY_NAME

    own, other = ({"objective": model.objective.to_dict(), **model.params} for model in (first, second))
    names = sorted(set(own) | set(other))
    usual = {name: BY_NAME[name].default for name in names if name in BY_NAME}
    own, other = {**usual, **own}, {**usual, **other}
    pairs = list(zip(first.trees, second.trees, strict=False))
    structure = [_same(left, right, STRUCTURE) for left, right in pairs]
    values = [_same(left, right, ("leaf_value",)) and _same_linear(left, right) for left, right in pairs]
    alike = [one and two for one, two in zip(structure, values, strict=True)]
    return {
        "same": first.fingerprint() == second.fingerprint(),
        "fingerprints": [first.fingerprint(), second.fingerprint()],
        "parameters": {name: [own.get(name), other.get(name)] for name in names if own.get(name) != other.get(name)},
        "features": {
            "only_first": [name for name in first.feature_names if name not in second.feature_names],
            "only_second": [name for name in second.feature_names if name not in first.feature_names],
            "same_order": first.feature_names == second.feature_names,
        },
        "init_scores": [first.init_scores.tolist(), second.init_scores.tolist()],
        "best_iteration": [first.n_best, second.n_best],
        "trees": {
            "numbers": [len(first.trees), len(second.trees)],
            "same": sum(alike),
            "same_structure": sum(structure),
            "first_that_differs": alike.index(False) if False in alike else None,
        },
    }


STRUCTURE = ("feature", "threshold", "missing_left", "left", "right")
"""Arrays of a tree that say where rows go."""


def _same_linear(left: Any, right: Any) -> bool:
    """Say whether the linear leaves of two trees are the same."""
    if left.linear is None or right.linear is None:
        return left.linear is right.linear
    return _same(left.linear, right.linear, ("start", "feature", "coeff", "const", "low", "high"))


def _same(left: Any, right: Any, names: tuple[str, ...]) -> bool:
    """Say whether arrays of two trees are the same, to the bit; codes of levels go with the structure."""
    import numpy as np

    arrays = all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)
    if not arrays or names is not STRUCTURE:
        return arrays
    codes, others = left.left_codes or (), right.left_codes or ()
    return len(codes) == len(others) and all(
        (one is None) == (two is None) and (one is None or np.array_equal(one, two))
        for one, two in zip(codes, others, strict=True)
    )


def _compare_predictions(models: tuple[Any, Any], data: str, header: bool | None) -> dict[str, Any]:
    """Return how predictions for a file differ; each model finds its columns by name."""
    import numpy as np

    from hornbeam.cli.commands.predict import read_rows
    from hornbeam.cli.tables import STANDARD
    from hornbeam.core.errors import DataError

    if data == STANDARD:
        raise DataError("diff reads the data once for each model, which standard input does not allow; pass a file")
    left, right = (model.predict(read_rows(model, data, [], header)[0]) for model in models)
    if left.shape != right.shape:
        return {"rows": len(left), "shapes": [list(left.shape), list(right.shape)]}
    apart = np.abs(left - right).reshape(len(left), -1).max(axis=1)
    return {
        "rows": len(left),
        "rows_that_differ": int(np.count_nonzero(apart)),
        "largest_difference": float(apart.max()),
        "mean_difference": float(apart.mean()),
    }


def _show(found: dict[str, Any]) -> None:
    from hornbeam.cli.printing import print_facts, print_gap, print_table

    trees, features = found["trees"], found["features"]
    facts: dict[str, Any] = {
        "models": "the same, to the bit" if found["same"] else "differ",
        "fingerprints": " ".join(sorted({text[:16] for text in found["fingerprints"]})),
        "trees": f"{trees['same']} the same, {trees['same_structure']} of the same structure, "
        f"of {trees['numbers'][0]} and {trees['numbers'][1]}",
    }
    if trees["first_that_differs"] is not None:
        facts["first tree apart"] = trees["first_that_differs"]
    for side in ("first", "second"):
        if features[f"only_{side}"]:
            facts[f"only in the {side}"] = ", ".join(features[f"only_{side}"])
    for name, value in found.get("predictions", {}).items():
        facts[f"predictions: {name.replace('_', ' ')}"] = value
    print_facts(facts)
    if found["parameters"]:
        print_gap()
        print_table(["parameter", "first", "second"], [[name, *both] for name, both in found["parameters"].items()])
