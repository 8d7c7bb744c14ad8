"""Dask, MPI and scikit-learn are imported when they are used, and named where they are missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hornbeam.dask as hbd
from hornbeam.core.errors import HornbeamError
from hornbeam.distributed.mpi import MpiCollective


def test_importing_is_light():
    code = (
        "import sys, hornbeam.dask, hornbeam.mpi\n"
        "heavy = {'dask', 'distributed', 'mpi4py', 'sklearn', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_missing_packages_are_named_with_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(HornbeamError, match=r"pip install 'hornbeam\[dask\]'"):
        hbd.Dataset(None, None)
    with pytest.raises(HornbeamError, match=r"pip install 'hornbeam\[mpi\]'"):
        MpiCollective()


def test_unknown_names_are_errors():
    with pytest.raises(AttributeError, match="has no attribute 'DaskHornbeam'"):
        _ = hbd.DaskHornbeam
