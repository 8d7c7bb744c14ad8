"""A stand-in for CuPy over NumPy: the ways of CUDA arrays can be walked on a machine without a CUDA device.

`install` puts it in CuPy's place, and lets the OpenCL device 0 play "cuda:0"; kernels then read and write its arrays.
"""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any

import numpy as np

from hornbeam.backends.gpu import binning as gpu_binning
from hornbeam.backends.gpu import opencl
from hornbeam.backends.gpu import predict as gpu_predict


class Device(contextlib.AbstractContextManager):
    def __init__(self, number: int) -> None:
        self.id = number

    def __exit__(self, *error: object) -> None:
        pass


class Array:
    """An array that NumPy cannot read by itself."""

    def __init__(self, host: np.ndarray, number: int = 0) -> None:
        self.host = host
        self.device = Device(number)

    dtype = property(lambda self: self.host.dtype)
    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    T = property(lambda self: Array(self.host.T))

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, key: Any) -> Array:
        return Array(self.host[key.host if isinstance(key, Array) else key])

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("implicit copies to the host are not allowed")

    def __dlpack__(self, **_: Any) -> Any:
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device.id

    def astype(self, dtype: Any) -> Array:
        return Array(self.host.astype(dtype))

    def get(self) -> np.ndarray:
        return self.host.copy()

    def memory(self) -> np.ndarray:
        """All elements from the first of this view to the last of what it is a view of."""
        base = self.host if self.host.base is None else self.host.base
        first = (self.host.ctypes.data - base.ctypes.data) // self.host.itemsize
        return base.reshape(-1, order="A")[first:]


class Runtime:
    """An OpenCL runtime whose kernels take `Array`s."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def launch(self, kernel: Any, groups: int, *arguments: Any) -> None:
        arrays = {i: a for i, a in enumerate(arguments) if isinstance(a, Array)}
        buffers = {i: self.real.allocate(a.memory().nbytes) for i, a in arrays.items()}
        for i, array in arrays.items():
            self.real.upload(buffers[i], array.memory().copy())
        self.real.launch(kernel, groups, *(buffers.get(i, a) for i, a in enumerate(arguments)))
        for i, array in arrays.items():
            found = np.empty_like(array.memory())
            self.real.download(buffers[i], found)
            array.memory()[...] = found


def install(monkeypatch: Any) -> types.ModuleType:
    module = types.ModuleType("cupy")
    module.ndarray = Array
    module.empty = lambda shape, dtype: Array(np.full(shape, 77, dtype))
    module.asarray = lambda array: array if isinstance(array, Array) else Array(np.array(array))
    module.ascontiguousarray = lambda array: Array(np.array(array.host, order="C"))
    stream = types.SimpleNamespace(synchronize=lambda: None)
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", module)
    runtime = Runtime(opencl.open_device(0))
    for part in (gpu_binning, gpu_predict):
        monkeypatch.setattr(part, "open_runtime", lambda device: runtime)
    monkeypatch.setattr(gpu_predict, "choose_device", lambda device: device)
    module.runtime = runtime
    return module
