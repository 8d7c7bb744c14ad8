"""MLflow: a flavour for Boosters and estimators, and `autolog`.

    hornbeam.companions.mlflow.log_model(model, name="model")
    hornbeam.companions.mlflow.load_model("models:/...")      # as it was
    mlflow.pyfunc.load_model("models:/...")                   # anything that predicts

`_load_pyfunc` is the name that MLflow calls.
"""

from hornbeam.companions.mlflow.autologging import autolog
from hornbeam.companions.mlflow.flavour import PyFunc, load_model, load_pyfunc, log_model, save_model

_load_pyfunc = load_pyfunc

__all__ = ["PyFunc", "autolog", "load_model", "log_model", "save_model"]
