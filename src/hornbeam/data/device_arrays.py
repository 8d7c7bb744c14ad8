"""Arrays in the memory of a CUDA device: CuPy's, PyTorch's, and whatever offers DLPack or `__cuda_array_interface__`.

They are taken as CuPy arrays without a copy. CuPy is imported when such an array turns up, never before.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, DeviceError
from hornbeam.data.cuda_errors import cupy_errors

_DLPACK_CUDA = (2, 13)
"""DLPack's numbers of CUDA memory and of CUDA managed memory."""

_DLPACK_HOST = (1, 3, 11)
"""Those of host memory: ordinary, and page-locked by CUDA or ROCm."""

_DLPACK_NAMES = {4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}
"""Those of other devices, for messages."""


def device_of(data: Any, name: str = "data") -> str | None:
    """Return where an array lies: "cuda:0", ...; None for everything in host memory; DataError for other devices."""
    if isinstance(data, (np.ndarray, list, tuple)):
        return None
    place = getattr(data, "__dlpack_device__", None)
    if place is not None and hasattr(data, "__dlpack__"):
        try:
            kind, number = (int(part) for part in place())
        except (BufferError, TypeError, ValueError, RuntimeError) as error:  # PyTorch's "meta" tensors have no memory
            raise DataError(
                f"{name} ({type(data).__name__}) does not say where it lies ({error}); pass an array in host memory or "
                "on a CUDA device"
            ) from None
        if kind in _DLPACK_CUDA:
            return f"cuda:{number}"
        if kind not in _DLPACK_HOST:
            raise DataError(
                f"{name} ({type(data).__name__}) is in the memory of device {number} of "
                f"{_DLPACK_NAMES.get(kind, f'kind {kind} of DLPack')}; arrays are taken from host memory and from CUDA "
                "devices: copy it to the host, whose data any device trains on"
            )
        return None
    try:
        interface = getattr(data, "__cuda_array_interface__", None)
    except (NotImplementedError, TypeError, RuntimeError):  # frames and columns of cuDF that have no single array
        return None
    if interface is None:
        return None
    return f"cuda:{as_cupy(data, name).device.id}"


def as_cupy(data: Any, name: str = "data") -> Any:
    """Return a CuPy array of the same memory, with everything done that was to be written there."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f"{name} is in the memory of a CUDA device, and reading it takes CuPy ({error}); "
            "pip install hornbeam[cuda], or pass it in host memory"
        ) from None
    if isinstance(data, cupy.ndarray):
        array = data
    else:
        source = data.detach() if hasattr(data, "detach") else data  # PyTorch: what needs a gradient is not exported
        try:
            array = cupy.from_dlpack(source) if hasattr(source, "__dlpack__") else cupy.asarray(source)
        except (BufferError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(
                f"{name} ({type(data).__name__}) cannot be read as an array of a CUDA device ({error}); pass a strided "
                "array of floats, integers or booleans"
            ) from None
    finish(array, name)  # conversion has ordered foreign writes before CuPy's current stream
    return array


def finish(array: Any, name: str = "an array") -> None:
    """Wait until a CuPy array is written: the engine has a stream of its own, and CuPy its current one."""
    import cupy

    with cupy_errors(f"cuda:{array.device.id}", f"computing {name}"), array.device:
        cupy.cuda.get_current_stream().synchronize()


def to_host(array: Any) -> NDArray[Any]:
    """Return a copy of a CuPy array in host memory."""
    with cupy_errors(f"cuda:{array.device.id}", "copying to the host"), array.device:
        copied: NDArray[Any] = array.get()
    return copied


def host_array(data: Any, name: str = "data") -> NDArray[Any]:
    """Return anything like an array as NumPy's: a copy of what lies on a CUDA device, else of the same memory."""
    if device_of(data, name) is not None:
        return to_host(as_cupy(data, name))
    return from_tensor(data, name) if is_tensor(data) else np.asarray(data)


def is_tensor(data: Any) -> bool:
    """Say whether data is an array of another library than NumPy that speaks DLPack."""
    return hasattr(type(data), "__dlpack__") and not isinstance(data, np.ndarray)


def from_tensor(data: Any, name: str = "data") -> NDArray[Any]:
    """Return an array of PyTorch, JAX or another library in host memory as NumPy's, of the same memory if it can be."""
    source = data.detach() if hasattr(data, "detach") else data  # PyTorch: what needs a gradient is not exported
    try:
        return np.from_dlpack(source)
    except (BufferError, TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError) as error:
        array: NDArray[Any] | None = None
        with suppress(TypeError, ValueError, RuntimeError, NotImplementedError):
            array = np.asarray(
                source
            )  # arrays that are read-only, and columns of Arrow with nulls, which DLPack has not
        if array is None or (array.dtype == object and not hasattr(type(data), "__array__")):
            raise DataError(
                f"{name} ({type(data).__module__}.{type(data).__name__}) cannot be read as an array ({error}); pass a "
                "dense tensor of float32, float64, integers or booleans, for example tensor.float()"
            ) from None
        return array


def in_library_of(data: Any, result: Any) -> Any:
    """Return a CuPy array as an array of the library that `data` came from: PyTorch's, else CuPy's. Not copied."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        return torch.from_dlpack(result)
    return result


def check_device(found: str, asked: str, name: str = "data") -> None:
    """Raise unless data on the device `found` can be used on the device `asked`.

    found   "cuda:0", ...: where the data lies
    asked   as in the parameter `device`; "cpu" and "reference" take a copy in host memory
    """
    if asked in ("auto", "gpu", "cpu", "reference") or found == asked or (asked == "cuda" and found == "cuda:0"):
        return
    raise DeviceError(
        f"{name} is in the memory of {found}, but device={asked!r}; move the data there, or ask for device={found!r}"
    )
