"""`CVBooster`: the models of the folds of `cv`, asked and saved together."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hornbeam.core.errors import ParameterError
from hornbeam.model.booster import Booster
from hornbeam.model.file import write_atomically
from hornbeam.model.file.parsing import parse_document
from hornbeam.model.file.tree_checks import check_int, check_keys, check_list
from hornbeam.params.peer_arguments import CV_BOOSTER_ATTRIBUTES, SAVE, PeerAttributes, takes_peer_arguments

PLACE = "models of cv"
"""What errors call the file."""


class CVBooster(PeerAttributes):
    """The Boosters of the folds.

    Methods are those of Booster: they are called for every fold, and the results come as a list
    (`cvbooster.predict(X)`, `cvbooster.feature_importance("gain")`). Only `save_model` (or `save`) and
    `model_to_string` put all folds into one file and one text.

    Parameters
    ----------
    boosters
        The Boosters; or
    model_file, model_str
        a file that `save_model` wrote, or its text.

    Attributes
    ----------
    boosters
        list of Booster.
    best_iteration
        Number of iterations that early stopping found best on average over the folds; 0 if it did not run.
    """

    _instead = CV_BOOSTER_ATTRIBUTES
    boosters: list[Booster]

    def __init__(
        self,
        boosters: Sequence[Booster] | None = None,
        *,
        model_file: str | os.PathLike[str] | None = None,
        model_str: str | None = None,
    ) -> None:
        if sum(given is not None for given in (boosters, model_file, model_str)) > 1:
            raise ParameterError(
                "a CVBooster is made from one of boosters, model_file and model_str; hornbeam.cv makes new ones"
            )
        self.boosters, self.best_iteration = list(boosters or []), 0
        if model_file is not None:
            self._read(Path(model_file).read_bytes())
        elif model_str is not None:
            self._read(model_str.encode())

    def _read(self, text: bytes) -> None:
        document = check_keys(parse_document(text, PLACE), ("best_iteration", "boosters"), PLACE)
        self.boosters = [Booster(model_str=model) for model in check_list(document["boosters"], str, "boosters")]
        self.best_iteration = check_int(document["best_iteration"], "best_iteration", 0, sys.maxsize)

    def __getattr__(self, name: str) -> Callable[..., list[Any]]:
        """Return a function that calls a method of Booster for every fold and returns the results in a list."""
        if name.startswith("_") or not callable(getattr(Booster, name, None)):
            super().__getattr__(name)  # type: ignore[misc]  # it raises

        def of_each(*arguments: Any, **keywords: Any) -> list[Any]:
            return [getattr(booster, name)(*arguments, **keywords) for booster in self.boosters]

        return of_each

    def model_from_string(self, model_str: str) -> CVBooster:
        """Become what `model_to_string` returned; returns self."""
        self._read(model_str.encode())
        return self

    @takes_peer_arguments(SAVE)
    def model_to_string(self, num_iteration: int | None = None, start_iteration: int = 0) -> str:
        """Return one text with the models of all folds; arguments as `Booster.model_to_string`."""
        models = [booster.model_to_string(num_iteration, start_iteration) for booster in self.boosters]
        return json.dumps({"best_iteration": self.best_iteration, "boosters": models}) + "\n"

    @takes_peer_arguments(SAVE)
    def save_model(
        self, filename: str | os.PathLike[str], num_iteration: int | None = None, start_iteration: int = 0
    ) -> CVBooster:
        """Write the models of all folds to one file, for CVBooster(model_file=filename); returns self."""
        write_atomically(filename, self.model_to_string(num_iteration, start_iteration).encode())
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the models of all folds to one file."""
        self.save_model(path)
