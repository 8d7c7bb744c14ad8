"""Model -> bytes -> file.

A model file is one JSON object in canonical form: keys sorted, no spaces, ASCII only, floats in the shortest form that
reads back to the same bits, one newline at the end. One model has one sequence of bytes. Its fingerprint is the SHA-256
of these bytes without the key "fingerprint", which holds it: a file that was damaged says so when it is read. Files of
version 0.1 have no such key.

    {"best_iteration":0,"feature_names":["age","income"],"fingerprint":"626ceb97...","format":"hornbeam-model",
     "init_scores":[0.5],"n_outputs":1,"objective":{"name":"regression"},"params":{"num_leaves":3},"trees":[
        {"feature":[1,0],"gain":[9.5,2.0],"leaf_count":[4,5,6],"leaf_value":[-1.5,0.5,-0.0],"leaf_weight":[4.0,5.0,6.0],
         "left":[1,-1],"missing_left":[true,false],"right":[-2,-3],"shrinkage":0.1,"split_count":[15,10],
         "split_value":[0.0,0.25],"split_weight":[15.0,10.0],"threshold":[1.5,"inf"]}],"version":1}

Trees are the arrays of trees/tree.py. An infinite threshold is the string "inf" or "-inf", since JSON has no
infinities; every other number is finite.

"stops_at_best":false says that predictions use the iterations after the best one, too.

Features that were given other names than the columns of the training table have "column_names", the names there.

A model with categorical features has "levels", one entry a feature: null, or its levels in the order of their codes
(all strings, all integers or all booleans). A tree that splits such a feature has "left_codes", one entry a split:
null, or the codes that go left, ascending. Models and trees without have no such keys.

    "levels":[null,["red","blue","green"]]        "left_codes":[null,[0,2]]

One of the levels may be null: its code is that of missing values, which otherwise have none and go right, as unseen
levels do. Models from other libraries have it where they tell the two apart.

    "levels":[null,[1,4,null]]

Where numbers of a categorical feature are cut to whole ones, "cut_features" has its place among the features.

    "cut_features":[1]

Where a categorical feature is read as numbers (target_encoding.py), "encodings" has one entry a feature: null, or the
number of each level in the order of "levels", of what is missing, and of all other levels. Splits of such a feature
have a threshold.

    "levels":[null,["N1","N2"]]        "encodings":[null,{"missing":0.3,"numbers":[0.25,0.5],"other":0.25}]

A tree with linear leaves (trees/linear_leaves.py) has three keys more, one entry a leaf: "leaf_const", "leaf_features"
(columns, ascending; none in a constant leaf) and "leaf_coeff"; one whose values have bounds has "leaf_low" and
"leaf_high", too. Models with bounds, and they alone, are of version 3, others with linear leaves of version 2.

    "leaf_coeff":[[0.5,-2.0],[]]        "leaf_const":[1.5,0.25]        "leaf_features":[[0,3],[]]
    "leaf_high":[4.5,0.25]              "leaf_low":[-2.0,0.25]
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import math
import os
import reprlib
import secrets
import stat
from pathlib import Path
from typing import Any

import numpy as np

from hornbeam.core.errors import ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.data.levels import Levels
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file.model_data import FORMAT_NAME, ModelData
from hornbeam.trees.tree import Tree

TREE_ARRAYS = {
    "feature": "int32",
    "threshold": "float64",
    "missing_left": "bool",
    "left": "int32",
    "right": "int32",
    "gain": "float64",
    "split_value": "float64",
    "split_weight": "float64",
    "split_count": "int64",
    "leaf_value": "float64",
    "leaf_weight": "float64",
    "leaf_count": "int64",
}
"""Arrays of a tree in the file, which are those of `Tree`, and their dtypes."""

INFINITE = {math.inf: "inf", -math.inf: "-inf"}
"""How infinite thresholds are written."""


def model_to_bytes(model: ModelData) -> bytes:
    """Return the bytes of a model's file: its content, and the fingerprint of that."""
    content, after = content_of(model), f'"format":"{FORMAT_NAME}",'.encode("ascii")
    return content.replace(after, seal_of(sha256(content)) + after, 1)  # keys are sorted


def without_seal(data: bytes, seal: str) -> bytes:
    """Return the content of a file in canonical form, whose fingerprint is `seal`."""
    return data.replace(seal_of(seal), b"", 1)


def seal_of(fingerprint: str) -> bytes:
    """Return how a fingerprint stands in a file."""
    return f'"fingerprint":"{fingerprint}",'.encode("ascii")


def content_of(model: ModelData) -> bytes:
    """Return the canonical bytes of a model, without its fingerprint."""
    document: dict[str, Any] = {
        "best_iteration": int(model.best_iteration),
        "feature_names": list(model.feature_names),
        "format": FORMAT_NAME,
        "init_scores": [float(score) for score in model.init_scores],
        "n_outputs": int(model.n_outputs),
        "objective": model.objective,
        "params": model.params,
        "trees": [_tree_to_dict(tree) for tree in model.trees],
        "version": int(model.version),
    }
    if model.column_names is not None:
        document["column_names"] = list(model.column_names)
    if model.best_iteration > 0 and not model.stops_at_best:
        document["stops_at_best"] = False
    if model.levels is not None:
        document["levels"] = [None if own is None else list(own.values) for own in model.levels]
        if any(isinstance(own, EncodedLevels) for own in model.levels):
            document["encodings"] = [_encoding_to_dict(own) for own in model.levels]
        cut = [feature for feature, own in enumerate(model.levels) if own is not None and own.is_cut]
        if cut:
            document["cut_features"] = cut
    try:
        with default_mode():  # in another one, Python's conversion of numbers to text goes wrong
            text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except ValueError:
        _refuse_infinite(model)
        raise
    return text.encode("ascii") + b"\n"


def _refuse_infinite(model: ModelData) -> None:
    """Raise ParameterError for the first iteration with a number that no file can hold."""
    for number, tree in enumerate(model.trees):
        own = tree.linear
        linear = () if own is None else (own.const, own.coeff, *((own.low, own.high) if own.is_bounded else ()))
        if not all(np.isfinite(values).all() for values in (tree.leaf_value, tree.split_value, tree.gain, *linear)):
            iteration = number // model.trees_per_iteration
            raise ParameterError(
                f"iteration {iteration} of the model has values that are infinite: training has diverged. Train with a "
                f"lower learning_rate; booster[:{iteration}] is the model before"
            )


def _encoding_to_dict(levels: Levels | None) -> dict[str, Any] | None:
    if not isinstance(levels, EncodedLevels):
        return None
    return {"missing": levels.missing, "numbers": levels.numbers.tolist(), "other": levels.other}


def _tree_to_dict(tree: Tree) -> dict[str, Any]:
    document: dict[str, Any] = {name: getattr(tree, name).tolist() for name in TREE_ARRAYS}
    document["threshold"] = [INFINITE.get(value, value) for value in document["threshold"]]
    document["shrinkage"] = float(tree.shrinkage)
    if tree.left_codes is not None:
        document["left_codes"] = [None if codes is None else codes.tolist() for codes in tree.left_codes]
    if tree.linear is not None:
        document["leaf_features"], document["leaf_coeff"] = tree.linear.lists()
        document["leaf_const"] = tree.linear.const.tolist()
        if tree.linear.is_bounded:
            document["leaf_low"], document["leaf_high"] = tree.linear.low.tolist(), tree.linear.high.tolist()
    return document


def fingerprint(model: ModelData) -> str:
    """Return the SHA-256 of a model's content as 64 hexadecimal digits."""
    return sha256(content_of(model))


def sha256(content: bytes) -> str:
    """Return the SHA-256 of some bytes as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def check_path(path: object) -> None:
    """Raise ParameterError unless this could be the path of a file."""
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(f"path={reprlib.repr(path)}: must be the path of a file, not {type(path).__name__}")


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that at every moment either the old or the whole new content is there.

    The bytes go to a temporary file in the same folder, reach the disk, and then take the name in one step. Raises the
    OSError of the operating system, with a message that names the path and what to do.
    """
    check_path(path)
    try:
        target = Path(path).resolve()  # a symbolic link stays a link: its target is replaced
        if target.is_symlink():  # Python 3.13 gives up in silence
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            target.write_bytes(data)  # a pipe or a terminal; a folder raises here
        else:
            _replace(target, data, mode)
    except (ValueError, RuntimeError) as error:  # a NUL in the path; a loop of symbolic links, in old Pythons
        raise ParameterError(f"path={os.fspath(path)!r}: no file has such a path ({error})") from None
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write the model ({error.strerror}); give a file in a folder that exists and may be written to",
            os.fspath(path),
        ) from error


def temporary_files(target: Path) -> list[Path]:
    """Return the temporary files that a crash in the middle of writing a file has left beside it."""
    return list(target.absolute().parent.glob(f".{glob.escape(target.name[:40])}.*.tmp"))


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    # Not the tempfile module: its files are private, and a model should get the permissions of any new file. The name
    # is cut so that the longest name that a file system allows still has a temporary file.
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system can do that: Windows cannot open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
