"""Dask, which is imported when it is used."""

from __future__ import annotations

from hornbeam.core.errors import HornbeamError


def require_dask() -> None:
    """Raise HornbeamError where Dask is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise HornbeamError(f"training on a Dask cluster needs {error.name}: pip install 'hornbeam[dask]'") from None
