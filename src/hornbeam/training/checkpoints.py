"""Checkpoints: a training that is cut short goes on where it was, and ends with the model of one go.

A checkpoint file is one JSON object, written atomically, so that at every moment a whole one is there:

    format, version   "hornbeam-checkpoint", 1
    run               what the training is made of: parameters, features, rows, digests of labels and bins, ...
    begin             iterations of the init_model, before which nothing of this run happened
    evaluations       [iteration, [[data set, metric, value, higher is better], ...]] of every evaluated iteration
    stopped           how a callback of the user's own ended the training, or null
    model             the model so far, in its canonical form (model/file/writing.py)
    sha256            of the bytes before it, with a brace in its place

Going on is training on from that model, which gives the model of one go: everything that an iteration draws or decides
follows from its number and from the trees before it. Callbacks that look back (early stopping, recorded evaluations)
are called once more with the evaluations of the iterations that are done (`replay`), so their state is not in the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ModelFormatError, ParameterError
from hornbeam.core.file_lock import FileLock
from hornbeam.core.log import warn
from hornbeam.data.bin_bounds import sample_rows
from hornbeam.data.fields import ROW_FIELDS
from hornbeam.model.booster import Booster
from hornbeam.model.file.parsing import parse_document
from hornbeam.model.file.reading import model_from_document
from hornbeam.model.file.tree_checks import check_int, check_keys, check_list, fail, show
from hornbeam.model.file.writing import temporary_files, write_atomically
from hornbeam.params.params import Params, whole_number
from hornbeam.training.callbacks import Callback, CallbackEnv, EarlyStopException
from hornbeam.training.evaluations import Evaluation

if TYPE_CHECKING:
    from hornbeam.dataset.dataset import Dataset
    from hornbeam.trees.tree import Tree

FORMAT_NAME = "hornbeam-checkpoint"
FORMAT_VERSION = 1
KEYS = ("begin", "evaluations", "format", "model", "run", "sha256", "stopped", "version")
PLACE = "checkpoint"
"""How error messages call the outermost JSON object."""

_SEAL = re.compile(rb',"sha256":"([0-9a-f]{64})"}\n')
_SEAL_LENGTH = 78
_NOT_FINITE = ("nan", "inf", "-inf")
"""How evaluations that JSON has no numbers for are written."""

WHAT = {
    "params": "the parameters",
    "objective": "the objective",
    "feature_names": "the names of the features",
    "n_rows": "the number of rows",
    "label": "the labels",
    "weight": "the weights",
    "group": "the queries",
    "init_score": "the initial scores",
    "bins": "the bins, and so the features,",
    "init_model": "init_model",
    "metrics": "the metrics",
    "metric_freq": "metric_freq",
    "valid_sets": "the validation sets",
}
"""Parts of a run, and how messages call them."""

PLACES, ROWS_TOGETHER = 16, 16
"""Where the values of a table are looked at, and how many rows there, to tell it from another with the same bins."""


def digest(*arrays: NDArray[Any] | None) -> str | None:
    """Return the SHA-256 of arrays, in their order; None where all are None."""
    if all(array is None for array in arrays):
        return None
    whole = hashlib.sha256()
    for array in arrays:
        if array is None:
            whole.update(b"none")
            continue
        whole.update(f"{array.dtype.str}{array.shape}".encode("ascii"))
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()


def describe_run(
    params: Params, objective: Mapping[str, Any], train_set: Dataset, start: Booster | None
) -> dict[str, Any]:
    """Return what makes a training this one and no other; the Dataset is binned.

    Digests stand for what is long. The bins and the values of some rows stand for the features.
    """
    mapper = train_set.mapper
    levels = [None if own is None else list(own.values) for own in train_set.levels or []]
    bins = hashlib.sha256(json.dumps(levels).encode("ascii"))
    bins.update(str(digest(*mapper.upper_bounds, mapper.has_missing)).encode("ascii"))
    bins.update(str(digest(*_some_rows(train_set))).encode("ascii"))
    run = {
        "params": params.model_dict(),
        "objective": dict(objective),
        "feature_names": list(train_set.feature_names),
        "n_rows": train_set.n_rows,
        "label": _digest_of_labels(train_set),
        "weight": digest(train_set.weight),
        "group": digest(train_set.group),
        "init_score": digest(train_set.init_score),
        "bins": bins.hexdigest(),
        "init_model": None if start is None else start.fingerprint(),
    }
    return _as_json(run)


def _bounds(dataset: Dataset) -> list[NDArray[np.float64]]:
    """Return bounds of times and positions, which take part in digests where there are any."""
    return [bound for bound in (dataset.row_field(name) for name in ROW_FIELDS) if bound is not None]


def _digest_of_labels(dataset: Dataset) -> str | None:
    return digest(dataset.label, *_bounds(dataset))


def _some_rows(train_set: Dataset) -> list[NDArray[np.float64]]:
    """Return the values of some rows, each float64 (at most ROWS_TOGETHER, n_features): other rows have other values.

    They lie together in places chosen by hash, because a table of columns is slow to read row by row.
    """
    n_rows, found = train_set.n_rows, []
    for start in sample_rows(n_rows, PLACES).tolist():
        values = train_set.read_rows(start, min(start + ROWS_TOGETHER, n_rows))
        found.append(np.where(np.isnan(values), np.nan, values) + 0.0)  # one NaN, and one zero
    return found


def describe_evaluation(params: Params, metrics: Sequence[str], valid_sets: Mapping[str, Dataset]) -> dict[str, Any]:
    """Return what makes the evaluations of a training comparable from iteration to iteration."""
    sets = {
        name: digest(dataset.label, dataset.weight, dataset.group, dataset.init_score, *_bounds(dataset))
        or f"{dataset.n_rows} rows"
        for name, dataset in valid_sets.items()
    }
    return _as_json({"metrics": list(metrics), "metric_freq": params.metric_freq, "valid_sets": sets})


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value as it comes back from a file: tuples are lists."""
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found


@dataclass
class Stopped:
    """The end of a training by a callback that is not replayed."""

    best_iteration: int
    best_score: list[Evaluation]


@dataclass
class Saved:
    """What a checkpoint file holds."""

    run: dict[str, Any]
    begin: int
    booster: Booster
    evaluations: list[tuple[int, list[Evaluation]]] = field(default_factory=list)
    stopped: Stopped | None = None


class Checkpoints:
    """The checkpoint file of one training: read when it begins, written while it runs."""

    def __init__(self, path: str | os.PathLike[str], freq: int) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ParameterError(f"checkpoint must be the path of a file, not {type(path).__name__}")
        self.path = Path(path)
        self.freq = whole_number(freq, "checkpoint_freq", low=1)
        if self.path.is_dir() or not self.path.absolute().parent.is_dir():
            raise ParameterError(
                f"checkpoint={os.fspath(path)!r}: must be a file in a folder that exists; make the folder first"
            )
        self._lock = FileLock(self.path.with_name(f".{self.path.name[:40]}.lock"))
        self._take()
        try:
            self._start(read_checkpoint(self.path) if self.path.exists() else None)
        except BaseException:
            self.close()
            raise

    def _start(self, saved: Saved | None) -> None:
        """Begin with what is kept of the training, if anything is."""
        self.saved = saved
        self.stopped: Stopped | None = None
        self._run: dict[str, Any] = {}
        self._begin = 0
        self._evaluations: list[tuple[int, list[Evaluation]]] = []
        self._written: tuple[int, Stopped | None] | None = None  # iterations in the file, and whether they were the end
        self._is_late = False  # a checkpoint could not be written when it was due
        self._n_done = 0  # iterations done in full, with evaluation and callbacks,
        self._n_evaluations = 0  # the evaluations up to there,
        self._trees: list[Tree] | None = None  # and their trees, where later iterations may change earlier trees

    def _take(self) -> None:
        """Make sure that the file can be written, and by nobody else; take away what crashes have left."""
        try:
            is_free = self._lock.take()
        except (OSError, ValueError) as error:
            raise ParameterError(
                f"checkpoint={os.fspath(self.path)!r}: no file can be written there ({error}); give a folder that may "
                "be written to"
            ) from None
        if not is_free:
            raise ParameterError(
                f"checkpoint={os.fspath(self.path)!r}: another training is writing this file now; wait for it, or give "
                "another name"
            )
        for stale in temporary_files(self.path):
            with contextlib.suppress(OSError):
                stale.unlink()

    def close(self) -> None:
        """Leave the file to others; it stays."""
        self._lock.release()

    def start_from(self, run: dict[str, Any], start: Booster | None) -> Booster | None:
        """Return the model to train on: that of the file, if there is one, else the given one."""
        self._run = run
        self._begin = 0 if start is None else start.n_iterations
        if self.saved is None:
            return start
        self._check_same(run)
        self._begin = self.saved.begin
        return self.saved.booster

    def _check_same(self, run: dict[str, Any]) -> None:
        """Refuse to go on from the checkpoint of another training."""
        assert self.saved is not None
        there = self.saved.run
        texts = []
        for name, now in run.items():
            if there.get(name) != now:
                texts.append(_difference(name, there.get(name), now))
        if texts:
            kind = ParameterError if there.get("params") != run.get("params", there.get("params")) else DataError
            raise kind(
                f"the checkpoint {os.fspath(self.path)!r} is of another training: {'; '.join(texts)}. Pass what that "
                "training had to go on with it; to begin anew, delete the file or name another one"
            )

    def begin(self, n_rounds: int, evaluation: dict[str, Any], booster: Booster) -> int:
        """Check the rest of what the run is made of; returns the number of its first iteration, before any resuming."""
        self._n_done, self._trees = booster.n_iterations, list(booster.trees)
        if self.saved is not None:
            self._check_same(evaluation)
            n_there = self._n_done - self._begin
            if n_rounds < n_there:
                raise ParameterError(
                    f"num_boost_round={n_rounds}: the checkpoint {os.fspath(self.path)!r} has {n_there} iterations "
                    "already; ask for as many or more, or delete the file to begin anew"
                )
            self._written = self._n_done, self.saved.stopped
            end, freq = self._begin + n_rounds, evaluation["metric_freq"]
            # an earlier, shorter run evaluated its last iteration whatever metric_freq says
            self._evaluations = [
                (i, results) for i, results in self.saved.evaluations if (i + 1) % freq == 0 or i == end - 1
            ]
            self._n_evaluations = len(self._evaluations)
        self._run = {**self._run, **evaluation}
        return self._begin

    def replay(self, env: CallbackEnv, callbacks: Sequence[Callback], booster: Booster) -> None:
        """Bring callbacks and history to where they were: call those with `replayed` for the iterations done.

        Raises EarlyStopException where the training had been ended; the trees after that are taken away.
        """
        results_of = dict(self._evaluations)
        again = [callback for callback in callbacks if getattr(callback, "replayed", False)]
        for iteration in range(self._begin, booster.n_iterations):
            env.iteration, env.evaluation_result_list = iteration, results_of.get(iteration, [])
            enter_history(booster, env.evaluation_result_list)
            try:
                for callback in again:
                    callback(env)
            except EarlyStopException:
                n_kept = iteration + 1
                if n_kept < booster.n_iterations:  # other rounds of patience than before
                    del booster.trees[n_kept * booster.trees_per_iteration :]
                    self.cut(n_kept)
                raise
        if self.saved is not None and self.saved.stopped is not None:
            self.stopped = self.saved.stopped
            raise EarlyStopException(self.stopped.best_iteration, self.stopped.best_score)

    @property
    def results_by_iteration(self) -> dict[int, list[Evaluation]]:
        """Evaluations by iteration, as far as they are known."""
        return dict(self._evaluations)

    def cut(self, n_kept: int) -> None:
        """Forget what came after the first iterations of the model, all of which are done."""
        self._evaluations = [entry for entry in self._evaluations if entry[0] < n_kept]
        self._n_done, self._n_evaluations, self._trees = n_kept, len(self._evaluations), None

    def evaluated(self, iteration: int, results: list[Evaluation]) -> None:
        """Note the evaluations of an iteration."""
        self._evaluations.append((iteration, results))

    def done(self, booster: Booster, n_iterations: int, changes_trees: bool) -> bool:
        """Note that an iteration is done in full; returns whether a checkpoint is due (`write` it then).

        changes_trees  later iterations change earlier trees (DART), so the trees of this moment are kept; all of them
                       must be in the Booster
        """
        self._n_done, self._n_evaluations = n_iterations, len(self._evaluations)
        self._trees = list(booster.trees) if changes_trees else None
        return self._is_late or (n_iterations - self._begin) % self.freq == 0

    def write(self, booster: Booster) -> None:
        """Write the iterations that were done in full, unless the file has them; a half-done one is left out.

        After Ctrl-C anywhere the trees may be fewer than that; then the file stays as it is. An error of the system, as
        of a full disk, does not end the training: the file stays as it was, and the next iteration tries again.
        """
        try:
            self._write(booster)
            self._is_late = False
        except OSError as error:
            self._is_late = True
            warn(f"the checkpoint was not written, and training goes on: {error}")

    def _write(self, booster: Booster) -> None:
        trees = (booster.trees if self._trees is None else self._trees)[: self._n_done * booster.trees_per_iteration]
        state = self._n_done, self.stopped
        if len(trees) < self._n_done * booster.trees_per_iteration or state == self._written:
            return
        model = Booster(booster.to_model())
        model.trees, model.n_best = trees, 0
        evaluations = [
            [iteration, [_evaluation_to_list(result) for result in results]]
            for iteration, results in self._evaluations[: self._n_evaluations]
        ]
        stopped = None
        if self.stopped is not None:
            scores = [_evaluation_to_list(result) for result in self.stopped.best_score]
            stopped = [self.stopped.best_iteration, scores]
        head = {
            "begin": self._begin,
            "evaluations": evaluations,
            "format": FORMAT_NAME,
            "run": self._run,
            "stopped": stopped,
            "version": FORMAT_VERSION,
        }
        text = json.dumps(head, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        body = text[:-1].encode("ascii") + b',"model":' + model.to_bytes().rstrip(b"\n")
        seal = hashlib.sha256(body + b"}").hexdigest()
        self._store(body + f',"sha256":"{seal}"}}\n'.encode("ascii"))
        self._written = state

    def _store(self, data: bytes) -> None:
        """Write the file."""
        write_atomically(self.path, data)


class KeptState(Checkpoints):
    """The same in memory: for a training whose state is kept elsewhere.

    kept  bytes of the last state, as in a file; None: there is none
    keep  takes the bytes of a new one
    """

    def __init__(self, freq: int, kept: bytes | None, keep: Callable[[bytes], None]) -> None:
        self.path, self.freq = Path("kept state"), whole_number(freq, "checkpoint_freq", low=1)
        self._keep = keep
        self._start(None if kept is None else _read(kept))

    def close(self) -> None:
        """Leave everything as it is."""

    def _store(self, data: bytes) -> None:
        """Hand the bytes over."""
        self._keep(data)


def iterations_in(kept: bytes) -> int:
    """Return the number of iterations of a state, as `KeptState` has it."""
    return _read(kept).booster.n_iterations


def enter_history(booster: Booster, results: Sequence[Evaluation]) -> None:
    """Append evaluations to the history of a Booster."""
    for result in results:
        booster.eval_history.setdefault(result.dataset, {}).setdefault(result.metric, []).append(result.value)


def _difference(name: str, there: Any, now: Any) -> str:
    """Say how a part of a run differs."""
    if isinstance(there, dict) and isinstance(now, dict) and name in ("params", "valid_sets"):
        keys = [key for key in sorted({*there, *now}) if there.get(key) != now.get(key)]
        if name == "valid_sets":
            return f"{WHAT[name]} differ: {', '.join(map(repr, keys))}"
        shown = [f"{key} was {_shown(key, there)} and is {_shown(key, now)} now" for key in keys]
        return f"{WHAT[name]} differ: {', '.join(shown)}"
    if name in ("n_rows", "metrics", "metric_freq", "objective"):
        return f"{WHAT[name]} differ: {there} then, {now} now"
    return f"{WHAT[name]} differ"


def _shown(key: str, params: dict[str, Any]) -> str:
    return show(params[key]) if key in params else "the default"


def _evaluation_to_list(result: Evaluation) -> list[Any]:
    value = float(result.value)
    written = value if np.isfinite(value) else repr(value)
    return [result.dataset, result.metric, written, bool(result.higher_is_better)]


def read_checkpoint(path: str | os.PathLike[str]) -> Saved:
    """Read a checkpoint file; ModelFormatError names the file and what is wrong with it."""
    try:
        return _read(Path(path).read_bytes())
    except ModelFormatError as error:
        raise ModelFormatError(
            f"{os.fspath(path)}: {error}; delete the file to begin anew, or name another checkpoint"
        ) from None


def _read(data: bytes) -> Saved:
    document = parse_document(data, PLACE)
    if type(document) is not dict or document.get("format") != FORMAT_NAME:
        fail(PLACE, f'this is not a checkpoint: it is no JSON object with "format":"{FORMAT_NAME}"')
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        fail("version", f"{show(version)} is not a version that this Hornbeam reads, which is {FORMAT_VERSION}")
    check_keys(document, KEYS, PLACE)
    seal = _SEAL.fullmatch(data[-_SEAL_LENGTH:])
    if seal is None or hashlib.sha256(data[:-_SEAL_LENGTH] + b"}").hexdigest().encode("ascii") != seal.group(1):
        fail("sha256", "the file is damaged or was edited: its content is not what was written")
    if type(document["run"]) is not dict:
        fail("run", f"{show(document['run'])} is not a JSON object")
    booster = Booster(model_from_document(document["model"]))
    begin = check_int(document["begin"], "begin", 0, booster.n_iterations)
    evaluations = []
    for i, entry in enumerate(check_list(document["evaluations"], list, "evaluations")):
        place = f"evaluations[{i}]"
        if len(entry) != 2:
            fail(place, f"has {len(entry)} entries, must have 2")
        iteration = check_int(entry[0], f"{place}[0]", begin, booster.n_iterations - 1)
        evaluations.append((iteration, _check_evaluations(entry[1], f"{place}[1]")))
    stopped = document["stopped"]
    if stopped is not None:
        if type(stopped) is not list or len(stopped) != 2:
            fail("stopped", f"{show(stopped)} is not a JSON array of 2")
        best = check_int(stopped[0], "stopped[0]", -1, booster.n_iterations - 1)
        stopped = Stopped(best, _check_evaluations(stopped[1], "stopped[1]"))
    return Saved(document["run"], begin, booster, evaluations, stopped)


def _check_evaluations(value: object, place: str) -> list[Evaluation]:
    found = []
    for i, entry in enumerate(check_list(value, list, place)):
        if [type(part) for part in entry] not in ([str, str, float, bool], [str, str, str, bool]):
            fail(f"{place}[{i}]", f"{show(entry)} is not an evaluation")
        if type(entry[2]) is str and entry[2] not in _NOT_FINITE:
            fail(f"{place}[{i}]", f"{show(entry[2])} is not a number")
        found.append(Evaluation(entry[0], entry[1], float(entry[2]), entry[3]))
    return found
