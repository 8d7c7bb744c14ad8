"""Model -> one file of C99: tables, then the functions of predict.c, which says how the result is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from itertools import chain

import numpy as np

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.outgoing import LARGEST_EXACT, Column, Outgoing
from hornbeam.convert.source.layout import lines_of
from hornbeam.data.sources.reader import ZERO
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file import ModelData

LINKS = ("identity", "square", "exp", "sigmoid", "softmax", "softplus", "step")


def write(model: ModelData, approximate: bool) -> bytes:
    """Return the bytes of a C file, or raise ConversionError."""
    exactness = Exactness("C", approximate)
    out = Outgoing(model)
    _check_levels(out, exactness)
    has_sets = any(codes is not None for tree in out.trees for codes in tree.left_codes or ())
    has_encodings = any(column.is_encoded for column in out.columns)
    has_strings = any(column.has_strings for column in out.columns)
    lines = [
        f"/* A model of Hornbeam: {out.objective.name}, {len(out.trees)} trees, {len(out.columns)} features.",
        " *",
        " *     void hornbeam_predict(const double *row, double *predictions);",
        " *     void hornbeam_predict_raw(const double *row, double *scores);",
        " *     const char *hornbeam_feature_name(int32_t feature);",
        *([" *     double hornbeam_level(int32_t feature, const char *text);"] * has_strings),
        " *",
        " * The functions at the end say what they take. C99; no library is needed. */",
        "#include <math.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        "",
        f"#define N_FEATURES {len(out.columns)}",
        f"#define N_OUTPUTS {out.n_outputs}",
        f"#define N_TREES {len(out.trees)}",
        f"#define AVERAGES_TREES {int(out.averages)}",
        f"#define ZEROS_ARE_MISSING {int(out.zeros_are_missing)}",
        f"#define LARGEST_ZERO {ZERO!r}",
        f"#define HAS_SETS {int(has_sets)}",
        f"#define HAS_ENCODINGS {int(has_encodings)}",
        f"#define HAS_STRINGS {int(has_strings)}",
        *(f"#define LINK_{name.upper()} {number}" for number, name in enumerate(LINKS)),
        f"#define LINK LINK_{out.objective.link.upper()}",
        f"#define SLOPE {out.slope!r}",
        "",
        *_table("char *const", "FEATURE_NAME", [_literal(name) for name in out.names]),
        *_table("double", "INIT_SCORE", _floats(out.init_scores.tolist())),
        *_tree_tables(out, has_sets),
    ]
    if out.zeros_are_missing:
        lines += _table("unsigned char", "IS_NUMBER", [int(column.levels is None) for column in out.columns])
    if has_encodings:
        lines += _encoding_tables(out.columns)
    if has_strings:
        lines += _text_tables(out.columns)
    functions = resources.files("hornbeam.convert.source").joinpath("predict.c").read_text(encoding="utf-8")
    exactness.report()
    return ("\n".join(lines) + "\n" + functions).encode("ascii")


def _check_levels(out: Outgoing, exactness: Exactness) -> None:
    out.refuse_large_numbers(exactness, LARGEST_EXACT)
    for column in out.columns:
        if column.has_strings and column.levels is not None and any("\0" in str(own) for own in column.levels.values):
            exactness.refuse(f"feature {column.name!r} has a level with a NUL in it", "use format 'python'")


def _tree_tables(out: Outgoing, has_sets: bool) -> list[str]:
    """Return the tables of all splits and all leaves, tree after tree, and where the root of each tree is.

    A node is a split, or ~leaf.
    """
    roots: list[int] = []
    sides: dict[str, list[int]] = {"LEFT": [], "RIGHT": []}
    n_splits = n_leaves = 0
    for tree in out.trees:
        roots.append(n_splits if tree.n_splits else ~n_leaves)
        for name, side in zip(sides, (tree.left, tree.right), strict=True):
            moved = np.where(side >= 0, side.astype(np.int64) + n_splits, side.astype(np.int64) - n_leaves)
            sides[name] += moved.tolist()
        n_splits += tree.n_splits
        n_leaves += tree.n_leaves
    missing_left: list[int] = [int(own) for tree in out.trees for own in tree.missing_left.tolist()]
    set_of, begins, members = [], [0], []
    for split, (feature, codes) in enumerate(_splits(out)):
        set_of.append(-1 if codes is None else len(begins) - 1)
        if codes is not None:
            own, with_missing = out.columns[feature].members(codes)
            missing_left[split] = int(with_missing)
            members += own
            begins.append(len(members))
    thresholds = [value for tree in out.trees for value in tree.threshold.tolist()]
    lines = [
        "/* Splits and leaves of all trees; a node is a split, or ~leaf. */",
        *_table("int32_t", "ROOT", roots),
        *_table("int32_t", "FEATURE", [feature for feature, _ in _splits(out)]),
        *_table("double", "THRESHOLD", _floats(thresholds)),
        *_table("unsigned char", "MISSING_LEFT", missing_left),
        *_table("int32_t", "LEFT", sides["LEFT"]),
        *_table("int32_t", "RIGHT", sides["RIGHT"]),
        *_table("double", "LEAF_VALUE", _floats(chain.from_iterable(tree.leaf_value.tolist() for tree in out.trees))),
    ]
    if has_sets:
        lines += ["/* The set of each split, -1 for a split of numbers; the members of each set, ascending. */"]
        lines += _table("int32_t", "SET", set_of)
        lines += _table("int32_t", "SET_BEGIN", begins)
        lines += _table("double", "MEMBER", members)
    return lines


def _splits(out: Outgoing) -> Iterable[tuple[int, np.ndarray | None]]:
    """Yield the feature of each split, and its codes where it has a set."""
    for tree in out.trees:
        yield from zip(tree.feature.tolist(), tree.left_codes or (None,) * tree.n_splits, strict=True)


def _encoding_tables(columns: Sequence[Column]) -> list[str]:
    """Return the numbers that levels are read as."""
    encoding, begins, levels, numbers, missing, others = [], [0], [], [], [], []
    for column in columns:
        encoding.append(len(begins) - 1 if column.is_encoded else -1)
        if isinstance(column.levels, EncodedLevels):
            order = np.argsort(column.numbers)
            levels += column.numbers[order].tolist()
            numbers += column.levels.numbers[order].tolist()
            missing.append(column.levels.missing)
            others.append(column.levels.other)
            begins.append(len(levels))
    return [
        "/* Levels that are read as numbers: the encoding of each feature, -1 for none, and what each has. */",
        *_table("int32_t", "ENCODING", encoding),
        *_table("int32_t", "LEVEL_BEGIN", begins),
        *_table("double", "LEVEL", levels),
        *_table("double", "NUMBER_OF_LEVEL", _floats(numbers)),
        *_table("double", "NUMBER_OF_MISSING", _floats(missing)),
        *_table("double", "NUMBER_OF_OTHERS", _floats(others)),
    ]


def _text_tables(columns: Sequence[Column]) -> list[str]:
    """Return the levels that are strings, in the order of their bytes, and the numbers that stand for them."""
    begins, texts, numbers = [0], [], []
    for column in columns:
        if column.has_strings and column.levels is not None:
            words = [str(own) for own in column.levels.values if own is not None]
            for content, number in sorted((word.encode(), number) for number, word in enumerate(words)):
                texts.append(_literal(content))
                numbers.append(number)
        begins.append(len(texts))
    return [
        "/* Levels that are strings, of all features, and the number of each. */",
        *_table("int32_t", "TEXT_BEGIN", begins),
        *_table("char *const", "TEXT", texts),
        *_table("int32_t", "TEXT_NUMBER", numbers),
    ]


def _floats(values: Iterable[float]) -> list[str]:
    """Return numbers in the shortest form that reads back to the same bits."""
    return [repr(value) if np.isfinite(value) else "INFINITY" if value > 0 else "-INFINITY" for value in values]


def _table(kind: str, name: str, values: Sequence[object]) -> list[str]:
    """Return the lines of an array; C has none without entries."""
    return [f"static const {kind} {name}[] = {{", *lines_of(values or ["0"], "    "), "};"]


def _literal(text: str | bytes) -> str:
    """Return a string literal of C, in ASCII, without anything that a preprocessor would change."""
    content = text.encode() if isinstance(text, str) else text
    words = [chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in content]
    return f'"{"".join(words)}"'
