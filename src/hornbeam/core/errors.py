"""What Hornbeam raises. Every message says what was given, what is allowed and what to do."""

from __future__ import annotations


class HornbeamError(Exception):
    """Base of every error that Hornbeam raises on purpose."""


LightGBMError = XGBoostError = HornbeamError
"""What scripts for other libraries catch: `basic.LightGBMError` and `core.XGBoostError`."""


class ParameterError(HornbeamError, ValueError):
    """A training parameter is unknown, has a wrong value, or contradicts another one."""


class DataError(HornbeamError, ValueError):
    """Data, labels, weights or scores cannot be used as given."""


class MissingPackageError(HornbeamError, ImportError):
    """A package that does the work is not installed."""


class ModelFormatError(HornbeamError, ValueError):
    """A model file is damaged, or is not a model file."""


class ConversionError(HornbeamError, ValueError):
    """The format of another library cannot say what a model says."""


class DeviceError(HornbeamError, RuntimeError):
    """The requested device is not there, or cannot do what the parameters ask."""


class DeviceMemoryError(DeviceError):
    """A device has too little memory, or may not give as much as is asked for."""


class CollectiveError(HornbeamError, RuntimeError):
    """Workers that train together lost each other: one failed, is late, or does something else than the others."""
