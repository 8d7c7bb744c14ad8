"""docs/parameters.md, made of the table of parameters."""

from __future__ import annotations

from hornbeam.params.table import GROUPS, PARAMETERS

_TYPE_TEXT = {
    "choice": "str",
    "alpha": "float or list of float",
    "objective": "str or function",
    "metric": "str, list or None",
    "device": "str",
    "threads": "int",
    "columns": "str or list",
    "signs": "list, str, dict or None",
    "factors": "list, str, dict or None",
    "weights": "list, str, dict or None",
    "groups": "list of lists, str or None",
    "ranks": "int, list of int or str",
    "gains": "list of float or None",
    "bins": "list of int or None",
    "bounds": "path, list or None",
    "splits": "path, dict or None",
    "costs": "list of float, str or None",
}


def to_markdown() -> str:
    """Return the text of docs/parameters.md."""
    lines = [
        "# Parameters",
        "",
        "<!-- Written by `make docs` from src/hornbeam/params/rows/; change it there. -->",
        "",
        "Names and defaults are LightGBM's. The aliases are the names that LightGBM, XGBoost and scikit-learn use. An",
        "unknown name and a value out of range raise `ParameterError`. Where two names of one parameter disagree, a",
        "warning says which one counts: the name of the section, else the shortest.",
        'Strings are not numbers (`"0.1"`), and `True` is not an integer. None means: not given.',
        "[Coming from another library](migration.md) has the parameters of LightGBM and XGBoost that are not here.",
        "",
        "*Saved* says whether the parameter is part of the model (and so of its fingerprint) when it differs from the",
        "default. What is not saved cannot change a tree.",
        "",
    ]
    for group in GROUPS:
        lines += [f"## {group}", ""]
        for row in (row for row in PARAMETERS if row.group == group):
            facts = [_TYPE_TEXT.get(row.type, row.type), f"default `{row.default!r}`"]
            facts += [f"`{row.range_text()}`"] if row.range_text() else []
            facts += ["saved" if row.in_model else "not saved"]
            lines += [f"### `{row.name}`", "", ", ".join(facts), "", row.doc, ""]
            if row.aliases:
                lines += ["Aliases: " + ", ".join(f"`{alias}`" for alias in row.aliases), ""]
            synonyms: dict[str, list[str]] = {}
            for spelling, value in (row.choices or {}).items():
                if spelling != value:
                    synonyms.setdefault(value, []).append(spelling)
            for value, spellings in synonyms.items():
                lines += [f"- `{value}` may be spelled " + ", ".join(f"`{spelling}`" for spelling in spellings)]
            lines += [""] if synonyms else []
    return "\n".join(lines).rstrip() + "\n"
