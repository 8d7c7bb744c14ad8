"""Methods of a Booster that users of XGBoost know."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.core.log import inform
from hornbeam.data.column_names import are_made_up
from hornbeam.data.sources.markers import without_marker
from hornbeam.model.file import write_atomically
from hornbeam.model.formats import read_file
from hornbeam.model.rooms import room
from hornbeam.params.given import GivenParams
from hornbeam.params.params import canonical_names

if TYPE_CHECKING:
    from typing_extensions import Self

SCORES = ("weight", "gain", "cover", "total_gain", "total_cover")
"""Importances by XGBoost's names."""


class XGBoostFace:
    """What XGBoost's Booster has besides; `Booster` is one."""

    is_xgboosts: bool = False
    """Whether a DMatrix was trained on, or `load_model` read the model: what could be said in two ways is XGBoost's."""

    stops_at_best: bool = True
    """Whether predictions use the iterations up to the best one; XGBoost's Booster uses all, its estimators do not."""

    _attributes: Mapping[str, str] = MappingProxyType({})

    @property
    def n_used(self) -> int:
        """Number of iterations that predictions use, where nothing else is asked for."""
        return self.n_best if self.n_best > 0 and self.stops_at_best else self.n_iterations

    @property
    def best_iteration(self) -> int:
        """Number of iterations that early stopping found best, 0 if it did not run.

        Where a DMatrix was trained on, as in XGBoost: the best one's number, from 0; AttributeError if it did not run.
        """
        if not self.is_xgboosts:
            return self.n_best
        if self.n_best == 0:
            raise AttributeError("best_iteration is there after early stopping alone")
        return self.n_best - 1

    @best_iteration.setter
    def best_iteration(self, number: int) -> None:
        self.n_best = number + self.is_xgboosts

    types: list[str] | None = None
    """Types of features as XGBoost writes them, where a DMatrix that has them was trained on; not saved."""

    @property
    def feature_types(self) -> list[str] | None:
        """The type of each feature: that of the DMatrix, or "c" for a categorical one, else "float".

        None: an array of numbers in a DMatrix was trained on, which has no types either.
        """
        if self.types is not None:
            return list(self.types)
        levels = self.levels or [None] * len(self.feature_names)
        if self.is_xgboosts and are_made_up(self.feature_names) and not any(levels):
            return None
        return ["float" if one is None else "c" for one in levels]

    def attributes(self) -> dict[str, str]:
        """Return the texts that `set_attr` has set, and the best iteration, from 0, and its score where there are."""
        found = {}
        if self.n_best > 0:
            found["best_iteration"] = str(self.n_best - 1)
            if isinstance(self.best_score, float):
                found["best_score"] = str(self.best_score)
        return {**found, **self._attributes}

    def attr(self, key: str) -> str | None:
        """Return one of the `attributes`; None: it is not set."""
        return self.attributes().get(key)

    def set_attr(self, **attributes: Any) -> None:
        """Set texts that the Booster carries, in pickles, copies and files that XGBoost reads; None removes one."""
        wrong = [name for name, value in attributes.items() if not isinstance(value, (str, type(None)))]
        if wrong:
            raise ParameterError(f"set_attr({wrong[0]}={attributes[wrong[0]]!r}): must be a text; pass str(value)")
        made = {**self._attributes, **attributes}
        self._attributes = {name: value for name, value in made.items() if value is not None}

    def take_attributes(self, attributes: Mapping[str, str]) -> None:
        """Take the texts of a file, or of another Booster; the best iteration is no matter of texts."""
        attributes = {name: text for name, text in attributes.items() if name != "best_iteration"}
        self._attributes = {name: text for name, text in attributes.items() if name != "best_score"}
        try:
            if "best_score" in attributes:
                self.best_score = float(attributes["best_score"])
        except ValueError:
            self._attributes = dict(attributes)  # it is no number, so somebody else has set it

    def set_param(self, params: Any, value: Any = None) -> None:
        """Set parameters, a dict or a name and its value: the number of threads, and those of iterations to come.

        Predictions of a model do not depend on any of them; `update(train_set)` trains on with them.
        """
        given = {params: value} if isinstance(params, str) else dict(params)
        if self.is_xgboosts:
            given = room("training.xgboost_arguments").as_xgboost_changes(given, self._loop is None)
        checked = {name: one for name, one in canonical_names(given).items() if name != "verbosity"}
        self.num_threads = checked.pop("num_threads", self.num_threads)
        if not checked:
            return
        if self._training is not None or self._loop is not None:
            self.reset_parameter(checked)
        else:
            self.to_come = {**self.to_come, **checked}
            inform(f"{', '.join(checked)}: of iterations to come; predict has device=, num_threads= of its own")

    def get_score(self, fmap: str = "", importance_type: str = "weight") -> dict[str, float]:
        """Return the importance of every feature that is used, by name.

        importance_type  "weight": number of splits; "total_gain", "total_cover": sums over them; "gain", "cover": means
        fmap             a file that has other names of the features
        """
        if importance_type not in SCORES:
            raise ParameterError(f"importance_type={importance_type!r}: must be one of {', '.join(SCORES)}")
        splits = self.feature_importance("split")
        kind = importance_type.removeprefix("total_")
        values = splits if kind == "weight" else self.feature_importance(kind)
        if importance_type in ("gain", "cover"):
            values = np.divide(values, splits, out=np.zeros(len(splits)), where=splits > 0)
        pairs = zip(names_of(fmap, self.feature_names), values.tolist(), splits.tolist(), strict=True)
        return {name: float(value) for name, value, n_splits in pairs if n_splits}

    def get_fscore(self, fmap: str = "") -> dict[str, float]:
        """Return the number of splits of every feature that is used, by name."""
        return self.get_score(fmap)

    def get_dump(self, fmap: str = "", with_stats: bool = False, dump_format: str = "text") -> list[str]:
        """Return one text a tree, "text" or "json", as XGBoost writes them; `fmap` as in `get_score`."""
        model = replace(self[:].to_model(), feature_names=names_of(fmap, self.feature_names))
        return room("convert.xgboost.dump").dump(model, with_stats, dump_format)  # type: ignore[no-any-return]

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Become the model of a file, or of the bytes of one, of any format that is read."""
        self._become(read_file(fname))
        self.is_xgboosts, self.stops_at_best = True, False

    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        """Return the bytes of a model file that XGBoost reads, "json" or "ubj", and that holds the model as it is."""
        if raw_format not in ("json", "ubj"):
            raise ParameterError(f"raw_format={raw_format!r}: must be 'json' or 'ubj'")
        return bytearray(self._bytes_for_xgboost(raw_format))

    def save_as_xgboost(self, path: str | os.PathLike[str]) -> None:
        """Write what `save_raw` returns to a file, JSON where its name ends in .json, else UBJ, as XGBoost does."""
        kind = "json" if str(os.fspath(path)).lower().endswith(".json") else "ubj"
        write_atomically(path, self._bytes_for_xgboost(kind))

    def _bytes_for_xgboost(self, kind: str) -> bytes:
        model = self.to_model()
        every = replace(model, best_iteration=0)  # XGBoost itself looks for the best one
        return room("convert.xgboost.carrying").write(model, every, kind, self.attributes())  # type: ignore[no-any-return]

    def save_config(self) -> str:
        """Return parameters and objective as XGBoost's JSON, whose values are texts; a model keeps them itself."""
        return room("convert.xgboost.configuration").save_config(self)  # type: ignore[no-any-return]

    def load_config(self, config: str) -> None:
        """Take what `save_config` returned; it must be that of this model, which keeps its parameters itself."""
        room("convert.xgboost.configuration").load_config(self, config)

    def copy(self) -> Self:
        """Return the same model, with its best iteration and its attributes, without a training."""
        return deepcopy(self)

    def inplace_predict(
        self,
        data: Any,
        iteration_range: tuple[int, int] | None = None,
        predict_type: str = "value",
        missing: float = np.nan,
        **choices: Any,
    ) -> Any:
        """Predict for a table: `predict` by another name; `predict_type="margin"` asks for raw scores.

        missing  a number that stands for missing values, besides NaN
        """
        if predict_type not in ("value", "margin"):
            raise ParameterError(f"predict_type={predict_type!r}: must be 'value' or 'margin'")
        asked = {"raw_score": predict_type == "margin", "iteration_range": iteration_range}
        return self.predict(without_marker(data, missing), **asked, **choices)

    def eval_set(
        self, evals: Sequence[tuple[Any, str]], iteration: int = 0, feval: Any = None, output_margin: bool = True
    ) -> str:
        """Evaluate Datasets, and return one line, with a tab before each value: "[3] eval-rmse:0.5"."""
        results = [result for data, name in evals for result in self.evaluate(data, name, feval)]
        return evaluation_line(iteration, results)

    def dump_model_file(self, fout: str | os.PathLike[str], with_stats: bool, dump_format: str, fmap: str = "") -> None:
        """Write the texts of `get_dump` to a file, as XGBoost's `dump_model` does."""
        texts = self.get_dump(fmap, with_stats, dump_format)
        if dump_format == "json":
            content = "[\n" + ",\n".join(texts) + "\n]"
        else:
            content = "".join(f"booster[{place}]:\n{text}" for place, text in enumerate(texts))
        Path(fout).write_text(content)

    if TYPE_CHECKING:  # what Booster has
        feature_names: list[str]
        levels: list[Any] | None
        params: GivenParams
        n_best: int
        best_score: Any
        num_threads: int
        _training: Any
        to_come: Mapping[str, Any]
        _loop: Any
        reset_parameter: Callable[..., Any]
        feature_importance: Callable[..., NDArray[Any]]
        predict: Callable[..., Any]
        evaluate: Callable[..., list[Any]]
        to_model: Callable[[], Any]
        _become: Callable[..., Any]

        @property
        def n_iterations(self) -> int:
            """Number of boosting iterations."""

        @property
        def objective(self) -> Any:
            """The objective."""

        def __getitem__(self, which: slice) -> Any:
            """Return some iterations."""


def evaluation_line(iteration: int, results: Sequence[Any]) -> str:
    """Return evaluations in one line, as XGBoost writes them."""
    return "\t".join([f"[{iteration}]", *(f"{name}-{metric}:{value:.17g}" for name, metric, value, _ in results)])


def names_of(fmap: str | os.PathLike[str], names: list[str]) -> list[str]:
    """Return the names of the features, or those of XGBoost's file of names: lines "number name type".

    Names that nobody gave are f0, f1, ..., as in XGBoost.
    """
    if names == [f"Column_{place}" for place in range(len(names))]:
        names = [f"f{place}" for place in range(len(names))]
    if not fmap:
        return names
    found = [line.split() for line in Path(fmap).read_text().splitlines() if line.strip()]
    if not all(len(line) == 3 and line[0].isdecimal() for line in found):
        raise ParameterError(f"fmap={os.fspath(fmap)!r}: lines must be 'number name type', numbers from 0")
    made = {int(number): name for number, name, _ in found}
    return [made.get(place, name) for place, name in enumerate(names)]
