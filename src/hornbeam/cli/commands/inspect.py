"""`hornbeam inspect`: what is in a model file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam inspect model.json",
    "hornbeam inspect model.json --tree 0",
    "hornbeam inspect model.json --json | jq .fingerprint",
)
"""Shown at the end of the help."""


def inspect(
    model: options.Model,
    top: Annotated[int, typer.Option("--top", metavar="N", help="Features to show, by gain.")] = 10,
    tree: Annotated[int | None, typer.Option("--tree", metavar="N", help="Show tree N, from 0.")] = None,
    json: options.Json = False,
) -> None:
    """Show what is in a model: objective, parameters, size, features, a tree."""
    import hornbeam as hb
    from hornbeam.cli.printing import print_facts, print_gap, print_json, print_table
    from hornbeam.cli.trees import tree_lines, tree_nodes

    booster = hb.load(model)
    if tree is not None and not 0 <= tree < len(booster.trees):
        raise hb.ParameterError(f"--tree {tree}: the model has {len(booster.trees)} trees, from 0")
    facts = describe(booster)
    if json:
        shown = {} if tree is None else {"tree": tree_nodes(booster, tree)}
        print_json(
            {"model": model, **facts, "params": booster.kept_params, "importance": features_of(booster), **shown}
        )
        return
    if tree is not None:
        print("\n".join(tree_lines(booster, tree)))
        return
    shown_facts = {name.replace("_", " "): value for name, value in facts.items() if name != "best_iteration" or value}
    print_facts({"model": model, **shown_facts})
    if booster.kept_params:
        print_gap()
        print_table(["parameter", "value"], list(booster.kept_params.items()))
    best = sorted(features_of(booster), key=lambda row: -float(row["gain"]))[:top]
    print_gap()
    print_table(["feature", "splits", "gain"], [[row["name"], row["splits"], row["gain"]] for row in best])


def describe(booster: Any) -> dict[str, Any]:
    """Return the facts of a model."""
    leaves = [tree.n_leaves for tree in booster.trees]
    return {
        "fingerprint": booster.fingerprint(),
        "objective": booster.objective.name,
        "features": booster.n_features,
        "categorical": sum(own is not None for own in booster.levels or []),
        "outputs": booster.n_outputs,
        "iterations": booster.n_iterations,
        "best_iteration": booster.n_best,
        "trees": len(booster.trees),
        "leaves": sum(leaves),
        "most_leaves": max(leaves, default=0),
        "depth": max((tree.depth() for tree in booster.trees), default=0),
    }


def features_of(booster: Any) -> list[dict[str, Any]]:
    """Return name, splits and gain of every feature."""
    splits, gains = (booster.feature_importance(kind) for kind in ("split", "gain"))
    rows = zip(booster.feature_names, splits.tolist(), gains.tolist(), strict=True)
    return [{"name": name, "splits": split, "gain": gain} for name, split, gain in rows]
