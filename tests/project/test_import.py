"""Importing is light: nothing heavy is imported, nothing compiled, no device touched."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import hornbeam as hb

HEAVY = ("numba", "llvmlite", "sklearn", "scipy", "pandas", "polars", "pyarrow", "narwhals", "rich", "matplotlib",
         "cupy", "pyopencl", "lightgbm", "xgboost", "optuna", "mlflow", "skops", "IPython",
         "typer", "asyncio", "email", "xml", "multiprocessing", "importlib.metadata")  # fmt: skip


ROOMS = ("explain", "convert", "views", "cli", "companions", "sklearn", "testing")


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
    assert modules_after(code).isdisjoint({*HEAVY, *(f"hornbeam.{room}" for room in ROOMS)})


def test_import_alone_brings_in_nothing_else():
    """Not even NumPy: every name brings in its module when it is first asked for."""
    modules = modules_after("import hornbeam; dir(hornbeam)")
    assert "numpy" not in modules
    peers = ("basic", "callback", "compat", "config", "engine", "plotting")  # which have no files
    names = {f"hornbeam.{name}" for name in peers}
    names |= {"hornbeam.core", "hornbeam.training"}  # which are empty packages
    assert {name for name in modules if name.startswith("hornbeam")} == {"hornbeam", *names}


def test_training_on_a_file_from_the_shell_imports_no_library_that_it_does_not_need(tmp_path):
    """pyarrow reads the file, and its numbers are taken from where it keeps them."""
    data = tmp_path / "data.csv"
    data.write_text("a,b,y\n" + "".join(f"{row % 7},{row % 5}.5,{row % 2}\n" for row in range(60)))
    arguments = ["train", str(data), "--label", "y", "-o", str(tmp_path / "model.json"), "device=reference", "-q"]
    modules = modules_after(
        "from hornbeam.__main__ import main\n"
        f"sys.argv[1:] = {[*arguments, 'num_iterations=1', 'min_data_in_leaf=5']}\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert ended.code == 0"
    )
    assert modules.isdisjoint(
        {"pandas", "polars", "rich", "numba", "scipy", "sklearn", "matplotlib", "hornbeam.testing"}
    )


def test_help_of_the_command_line_imports_no_numpy():
    code = "from hornbeam.cli.app import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass"
    assert modules_after(code).isdisjoint({"numpy", "numba", "pyarrow"})


def test_type_checkers_see_the_names_that_programs_get():
    tree = ast.parse(Path(hb.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.asname or alias.name: node.module for node in block.body for alias in node.names}
    modules = {name: f"hornbeam.{module}" for name, module in hb._HOMES.items()}
    assert seen == {**modules, "callback": "hornbeam.training"}
    assert set(seen) == set(hb.__all__) - {"__version__"}


def test_every_public_name_is_there():
    for name in hb.__all__:
        assert getattr(hb, name) is not None
    assert set(dir(hb)) >= set(hb.__all__)


def test_a_module_may_be_a_public_name():
    assert hb.callback.__name__ == "hornbeam.callback"
    names: dict[str, object] = {}
    exec("from hornbeam.callback import *", names)
    assert set(dir(hb.callback)) == set(hb.callback.__all__) == set(names) - {"__builtins__"}
    assert names["EarlyStopping"] is hb.callback.EarlyStopping


def test_plots_are_where_users_of_lightgbm_look_for_them():
    from hornbeam.plotting import plot_importance

    assert plot_importance is hb.plot_importance


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hb.nonsense  # noqa: B018


@pytest.mark.parametrize("kind", ["Classifier", "Ranker", "Regressor"])
def test_estimators_of_dask_are_here_by_lightgbms_names(kind):
    pytest.importorskip("distributed")
    import hornbeam.dask as hbd

    assert getattr(hb, f"DaskLGBM{kind}") is getattr(hbd, f"DaskLGBM{kind}") is getattr(hbd, f"DaskHornbeam{kind}")


def test_modules_of_lightgbms_say_what_is_installed():
    from hornbeam.basic import PANDAS_INSTALLED

    compat = hb.compat
    peer = pytest.importorskip("lightgbm.compat")
    asked = [name for name in vars(peer) if name.endswith("_INSTALLED")]
    assert asked
    assert {name: getattr(compat, name) for name in asked} == {name: getattr(peer, name) for name in asked}
    assert PANDAS_INSTALLED is True and compat.NO_SUCH_PACKAGE_INSTALLED is False
    for name in ("MATPLOTLIB_INSTALLED", "GRAPHVIZ_INSTALLED", "DASK_INSTALLED"):
        package = name.removesuffix("_INSTALLED").lower()
        assert getattr(compat, name) == (importlib.util.find_spec(package) is not None)


def test_to_ask_what_is_installed_imports_nothing():
    asked = "import hornbeam; from hornbeam.compat import MATPLOTLIB_INSTALLED, PANDAS_INSTALLED, SKLEARN_INSTALLED"
    assert modules_after(asked).isdisjoint({"matplotlib", "pandas", "sklearn", "numpy"})


def test_classes_that_xgboosts_scripts_find_in_its_core():
    for name in ("Booster", "DMatrix", "QuantileDMatrix", "DataIter", "XGBoostError"):
        assert getattr(hb.core, name) is getattr(hb, name)
    with pytest.raises(AttributeError, match="nothing"):
        hb.core.nothing  # noqa: B018
