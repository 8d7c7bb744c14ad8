"""The flavour: folders of MLflow that hold a Hornbeam model.

    MLmodel                what MLflow knows of the model: flavours, signature, fingerprint
    model.json             a Booster: its model file; or
    estimator.skops        an estimator, as skops writes it
    requirements.txt, python_env.yaml
    input_example.json     if there is one

No file is a pickle: to load a model runs no code that the file brings along.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hornbeam.companions.packages import require
from hornbeam.companions.skops import TRUSTED
from hornbeam.companions.skops import load as load_skops
from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.model.booster import Booster, load

FLAVOUR = "hornbeam"
LOADER = "hornbeam.companions.mlflow"
"""The module that MLflow imports to load a model."""

BOOSTER_FILE, ESTIMATOR_FILE = "model.json", "estimator.skops"


class PyFunc:
    """A model as `mlflow.pyfunc` wants it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Predict; `params` are keywords of the model's own `predict`, such as raw_score."""
        return self._model.predict(data, **(params or {}))

    def get_raw_model(self) -> Any:
        """Return the Booster or estimator."""
        return self._model


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a folder of MLflow.

    Parameters
    ----------
    model
        Booster, or fitted estimator.
    path
        Folder, which must be new or empty.
    signature
        Types of inputs and outputs; None: learned from the input example, if there is one.
    input_example
        Some rows to predict.
    pip_requirements
        Lines of requirements.txt; None: this version of Hornbeam, and what the model needs.
    metadata
        Anything to note beside the model.
    mlflow_model
        The mlflow.models.Model to add this flavour to; `log_model` passes it.
    """
    models = require("mlflow.models")
    booster = _booster_of(model)
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise ParameterError(f"{folder} is not empty; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    file = BOOSTER_FILE if model is booster else ESTIMATOR_FILE
    _write(model, folder / file)
    described = models.Model() if mlflow_model is None else mlflow_model
    if input_example is not None:
        require("mlflow.models.utils")._save_example(described, input_example, str(folder))
        if signature is None:
            signature = models.infer_signature(input_example, PyFunc(model).predict(input_example))
    if signature is not None:
        described.signature = signature
    if metadata is not None:
        described.metadata = metadata
    _write_environment(folder, pip_requirements or _requirements(model is booster))
    require("mlflow.pyfunc").add_to_model(described, loader_module=LOADER, data=file, python_env="python_env.yaml")
    described.add_flavor(
        FLAVOUR,
        hornbeam_version=sys.modules["hornbeam"].__version__,
        data=file,
        model_class=f"{type(model).__module__}.{type(model).__qualname__}",
        fingerprint=booster.fingerprint(),
    )
    described.save(str(folder / "MLmodel"))


def log_model(model: Any, name: str = "model", **choices: Any) -> Any:
    """Log a model to the active run of MLflow, or to a new one; returns MLflow's ModelInfo.

    Parameters
    ----------
    model
        Booster, or fitted estimator.
    name
        Name of the model.
    **choices
        Those of `save_model` (signature, input_example, pip_requirements, metadata) and those of MLflow's
        `Model.log` (registered_model_name, await_registration_for, run_id, params, tags, model_type, step, model_id).
    """
    models = require("mlflow.models")
    _booster_of(model)
    return models.Model.log(artifact_path=None, name=name, flavor=sys.modules[LOADER], model=model, **choices)


def load_model(model_uri: str | os.PathLike[str], dst_path: str | None = None) -> Any:
    """Load a Booster or estimator as it was, its fingerprint checked.

    Parameters
    ----------
    model_uri
        Folder, or address that MLflow knows ("models:/...", "runs:/...").
    dst_path
        Where to put what is downloaded; None: a temporary folder.
    """
    address, artifacts = os.fspath(model_uri), require("mlflow.artifacts")
    folder = Path(address)
    if not folder.is_dir():
        folder = Path(artifacts.download_artifacts(artifact_uri=address, dst_path=dst_path))
    return _read(folder)


def load_pyfunc(path: str) -> PyFunc:
    """Load a model for `mlflow.pyfunc`; path: the model's file in its folder."""
    return PyFunc(_read(Path(path).parent))


def _booster_of(model: Any) -> Booster:
    """Return the Booster of a model, or say what can be saved."""
    booster = model if isinstance(model, Booster) else getattr(model, "booster_", None)
    if not isinstance(booster, Booster):
        raise ParameterError(
            f"model is a {type(model).__name__}; pass a hornbeam.Booster or a fitted estimator (of pipelines: log them "
            "by mlflow.sklearn)"
        )
    return booster


def _write(model: Any, file: Path) -> None:
    """Write the model's file; what is in an estimator must be loadable without trust in anything but ours."""
    if isinstance(model, Booster):
        model.save(file)
        return
    skops = require("skops.io")
    content = skops.dumps(model)
    unknown = sorted(set(skops.get_untrusted_types(data=content)) - set(TRUSTED))
    if unknown:
        raise ParameterError(
            f"the estimator holds {', '.join(unknown)}, which a file cannot be trusted with (an objective function, a "
            "callback, or a class of your own); save its booster_ instead"
        )
    file.write_bytes(content)


def _read(folder: Path) -> Any:
    """Read the model of a folder."""
    try:
        described = require("mlflow.models").Model.load(str(folder))
    except require("mlflow.exceptions").MlflowException as error:
        raise ModelFormatError(f"{folder} is no model folder of MLflow: {error}") from None
    flavours = described.flavors
    if FLAVOUR not in flavours:
        raise ModelFormatError(
            f"{folder} holds no Hornbeam model, but {', '.join(sorted(flavours)) or 'no flavour'}; load it with the "
            "module that saved it"
        )
    name, fingerprint = (str(flavours[FLAVOUR].get(key)) for key in ("data", "fingerprint"))
    file = folder / name
    if name not in (BOOSTER_FILE, ESTIMATOR_FILE) or not file.is_file():
        raise ModelFormatError(f"{folder} lacks the file {name} that its MLmodel names; save the model anew")
    if name == BOOSTER_FILE:
        return load(file, fingerprint=fingerprint)
    estimator = load_skops(file)
    if _booster_of(estimator).fingerprint() != fingerprint:
        raise ModelFormatError(f"{file} holds another model than its MLmodel says; save the model anew")
    return estimator


def _requirements(is_booster: bool) -> list[str]:
    """Return what is needed to load and predict."""
    others = ["mlflow"] if is_booster else ["mlflow", "scikit-learn", "skops"]
    ours = f"hornbeam=={sys.modules['hornbeam'].__version__}"
    return [ours, *(f"{package}=={version(package)}" for package in others)]


def _write_environment(folder: Path, requirements: list[str]) -> None:
    """Write the files by which MLflow makes an environment to serve the model in."""
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    (folder / "python_env.yaml").write_text(
        f"python: {platform.python_version()}\nbuild_dependencies:\n- pip\ndependencies:\n- -r requirements.txt\n",
        encoding="utf-8",
    )
