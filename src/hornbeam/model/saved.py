"""What a Booster leaves behind: files of every format, reports, the fingerprint."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hornbeam.model.file import ModelData, fingerprint, model_to_bytes, write_atomically
from hornbeam.model.formats import format_of_name, model_of, write_as
from hornbeam.model.rooms import room

if TYPE_CHECKING:
    from typing_extensions import Self


class SavedModel:
    """Files, reports and the fingerprint of a model; `Booster` is one."""

    n_best: int
    stops_at_best: bool

    def to_model(self) -> ModelData:
        """Return what its file holds."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the canonical model file as bytes."""
        return model_to_bytes(self.to_model())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a model from the bytes of its file, of any format that `hornbeam.load` reads."""
        return cls(model_of(content))  # type: ignore[call-arg]

    def save(self, path: str | os.PathLike[str], format: str | None = None, *, approximate: bool = False) -> None:
        """Write the model to a file, atomically: a crash leaves the old file as it was.

        Parameters
        ----------
        path
            The file.
        format
            "hornbeam", or that of another library: "lightgbm" (text), "xgboost-json", "xgboost-ubj", "onnx",
            "treelite", "c" (C99 source) or "python" (a module). These hold the iterations that `predict` uses. None:
            "onnx", "c" or "python" where the name ends in .onnx, .c or .py; "hornbeam" for any other name.
        approximate
            Whether to write a model where the format cannot say all of it exactly; a warning says what is approximated.
            Otherwise that is a ConversionError. docs/exchange.md has what each format can say.
        """
        named = format_of_name(path) if format is None else format
        model = self.to_model()
        if named != "hornbeam":
            model = replace(model, best_iteration=self.n_best if self.stops_at_best else 0)
        write_atomically(path, write_as(model, named, approximate))

    def report(self, path: str | os.PathLike[str], valid: Any = None, **choices: Any) -> None:
        """Write a report on the model as one HTML file; `hornbeam.views.report.write_report` has the choices.

        valid  data to judge it by: a Dataset with labels, or a pair (table, labels); None: what the model alone tells
        """
        room("views.report").write_report(self, path, valid, **choices)

    def fingerprint(self) -> str:
        """Return 64 hexadecimal digits that name the model: the SHA-256 of what its file holds."""
        return fingerprint(self.to_model())
