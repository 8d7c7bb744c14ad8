"""Importing is light: nothing heavy is imported, nothing compiled, no device touched."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hornbeam as hb

HEAVY = ("numba", "llvmlite", "sklearn", "scipy", "pandas", "polars", "pyarrow", "narwhals", "rich", "matplotlib",
         "cupy", "pyopencl", "lightgbm", "xgboost", "optuna", "mlflow", "skops", "IPython",
         "hornbeam.companions")  # fmt: skip


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import hornbeam",
        "import hornbeam; dir(hornbeam); hornbeam.Params.from_dict({'num_leaves': 7})",
        "import hornbeam; hornbeam.Dataset([[1.0], [2.0]], label=[0, 1])",
    ],
)
def test_import_brings_in_nothing_heavy(code):
    assert modules_after(code).isdisjoint(HEAVY)


def test_every_public_name_is_there():
    for name in hb.__all__:
        assert getattr(hb, name) is not None
    assert set(dir(hb)) >= set(hb.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hb.nonsense  # noqa: B018
