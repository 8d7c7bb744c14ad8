"""Methods of a Booster that users of XGBoost know."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.model.formats import model_of, read_file
from hornbeam.model.rooms import room

if TYPE_CHECKING:
    from typing_extensions import Self

SCORES = ("weight", "gain", "cover", "total_gain", "total_cover")
"""Importances by XGBoost's names."""


class XGBoostFace:
    """What XGBoost's Booster has besides; `Booster` is one."""

    def get_score(self, fmap: str = "", importance_type: str = "weight") -> dict[str, float]:
        """Return the importance of every feature that is used, by name.

        importance_type  "weight": number of splits; "total_gain", "total_cover": sums over them; "gain", "cover": means
        """
        _refuse_map(fmap)
        if importance_type not in SCORES:
            raise ParameterError(f"importance_type={importance_type!r}: must be one of {', '.join(SCORES)}")
        splits = self.feature_importance("split")
        kind = importance_type.removeprefix("total_")
        values = splits if kind == "weight" else self.feature_importance(kind)
        if importance_type in ("gain", "cover"):
            values = np.divide(values, splits, out=np.zeros(len(splits)), where=splits > 0)
        pairs = zip(self.feature_names, values.tolist(), splits.tolist(), strict=True)
        return {name: float(value) for name, value, n_splits in pairs if n_splits}

    def get_fscore(self, fmap: str = "") -> dict[str, float]:
        """Return the number of splits of every feature that is used, by name."""
        return self.get_score(fmap)

    def get_dump(self, fmap: str = "", with_stats: bool = False, dump_format: str = "text") -> list[str]:
        """Return one text a tree, "text" or "json", as XGBoost writes them."""
        _refuse_map(fmap)
        return room("convert.xgboost.dump").dump(self[:].to_model(), with_stats, dump_format)  # type: ignore[no-any-return]

    def load_model(self, fname: str | os.PathLike[str] | bytes | bytearray) -> None:
        """Become the model of a file, or of the bytes of one, of any format that is read."""
        self._become(model_of(bytes(fname)) if isinstance(fname, (bytes, bytearray)) else read_file(fname))

    def save_raw(self, raw_format: str = "ubj") -> bytearray:
        """Return the bytes of a model file of Hornbeam's format, whatever format is named."""
        return bytearray(self.to_bytes())

    def save_config(self) -> str:
        """Return parameters and objective as JSON; a model keeps them itself."""
        return json.dumps({"params": _plain(self.params), "objective": self.objective.to_dict()}, default=list)

    def copy(self) -> Self:
        """Return a model of the same trees, without a training."""
        return self[:]  # type: ignore[no-any-return]

    def inplace_predict(self, data: Any, *, predict_type: str = "value", **choices: Any) -> Any:
        """Predict for a table: `predict` by another name; `predict_type="margin"` asks for raw scores."""
        if predict_type not in ("value", "margin"):
            raise ParameterError(f"predict_type={predict_type!r}: must be 'value' or 'margin'")
        return self.predict(data, raw_score=predict_type == "margin", **choices)

    def eval_set(
        self, evals: Sequence[tuple[Any, str]], iteration: int = 0, feval: Any = None, output_margin: bool = True
    ) -> str:
        """Evaluate Datasets, and return one line, with a tab before each value: "[3] eval-rmse:0.5"."""
        results = [result for data, name in evals for result in self.evaluate(data, name, feval)]
        return evaluation_line(iteration, results)

    def dump_model_file(self, fout: str | os.PathLike[str], with_stats: bool, dump_format: str) -> None:
        """Write the texts of `get_dump` to a file, as XGBoost's `dump_model` does."""
        texts = self.get_dump(with_stats=with_stats, dump_format=dump_format)
        if dump_format == "json":
            content = "[\n" + ",\n".join(texts) + "\n]"
        else:
            content = "".join(f"booster[{place}]:\n{text}" for place, text in enumerate(texts))
        Path(fout).write_text(content)

    if TYPE_CHECKING:  # what Booster has
        feature_names: list[str]
        params: dict[str, Any]
        feature_importance: Callable[..., NDArray[Any]]
        predict: Callable[..., Any]
        evaluate: Callable[..., list[Any]]
        to_bytes: Callable[[], bytes]
        _become: Callable[..., Any]

        @property
        def objective(self) -> Any:
            """The objective."""

        def __getitem__(self, which: slice) -> Any:
            """Return some iterations."""


def evaluation_line(iteration: int, results: Sequence[Any]) -> str:
    """Return evaluations in one line, as XGBoost writes them."""
    return "\t".join([f"[{iteration}]", *(f"{name}-{metric}:{value:.17g}" for name, metric, value, _ in results)])


def _refuse_map(fmap: Any) -> None:
    if fmap:
        raise ParameterError("fmap= is not taken: a model knows the names of its features; leave it out")


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in params.items()}
