"""A stand-in for CuPy over NumPy: the ways of CUDA arrays can be walked on a machine without a CUDA device.

`install` puts it in CuPy's place, and lets the OpenCL device 0 play "cuda:0"; kernels then read and write its arrays,
and its arrays can be views of the kernels' buffers (PoCL has these in host memory).
"""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl

from hornbeam.backends import devices
from hornbeam.backends.gpu.runtime import devices as gpus
from hornbeam.backends.gpu.runtime import opencl


class Device(contextlib.AbstractContextManager):
    def __init__(self, number: int) -> None:
        self.id = number

    def __exit__(self, *error: object) -> None:
        pass


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that NumPy cannot read by itself, and that does not mix with NumPy's."""

    def __init__(self, host: np.ndarray, number: int = 0) -> None:
        self.host = host
        self.device = Device(number)

    dtype = property(lambda self: self.host.dtype)
    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    T = property(lambda self: Array(self.host.T, self.device.id))
    flags = property(lambda self: self.host.flags)
    copies: ClassVar[list[int]] = []  # bytes of each copy to the host

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, key: Any) -> Array:
        return Array(self.host[key.host if isinstance(key, Array) else key], self.device.id)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[_bare(key)] = _bare(value)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("implicit copies to the host are not allowed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _call(getattr(ufunc, method), *inputs, **options)

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        return _call(function, *arguments, **options)

    def __dlpack__(self, **_: Any) -> Any:
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device.id

    def __bool__(self) -> bool:
        return bool(self.host)

    def __float__(self) -> float:
        return float(self.host)

    def __int__(self) -> int:
        return int(self.host)

    def __getattr__(self, name: str) -> Any:
        if name not in ("all", "any", "argmax", "astype", "copy", "max", "mean", "min", "repeat", "reshape", "sum"):
            raise AttributeError(name)
        return lambda *arguments, **options: _call(
            getattr(self.host, name), *arguments, number=self.device.id, **options
        )

    def item(self) -> Any:
        return self.host.item()

    def get(self) -> np.ndarray:
        self.copies.append(self.host.nbytes)
        return self.host.copy()

    def memory(self) -> np.ndarray:
        """All elements from the first of this view to the last of what it is a view of."""
        base = self.host if self.host.base is None else self.host.base
        first = (self.host.ctypes.data - base.ctypes.data) // self.host.itemsize
        return base.reshape(-1, order="A")[first:]


def _bare(value: Any) -> Any:
    """Return what NumPy can take; as CuPy, refuse arrays in host memory."""
    if isinstance(value, Array):
        return value.host
    if isinstance(value, (list, tuple)):
        return type(value)(_bare(one) for one in value)
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def _call(function: Any, *arguments: Any, number: int = 0, **options: Any) -> Any:
    result = function(*_bare(arguments), **{name: _bare(value) for name, value in options.items()})
    if isinstance(result, tuple):
        return tuple(Array(np.asarray(part), number) for part in result)
    return Array(np.asarray(result), number) if isinstance(result, (np.ndarray, np.generic)) else result


class Bridge:
    """Arrays beside the launches of an OpenCL device; see CupyBridge."""

    device = "cuda:0"

    def __init__(self, runtime: Runtime, module: types.ModuleType) -> None:
        self.runtime, self.xp = runtime, module
        self.depth = 0
        self.launching = False

    @contextlib.contextmanager
    def scope(self) -> Any:
        assert self.depth == 0
        self.after_launches()
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def after_launches(self) -> None:
        self.runtime.real.synchronize()
        self.launching = False

    def before_launches(self) -> None:
        assert self.depth == 1
        self.launching = True

    def array_of(self, buffer: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        assert self.depth == 1
        if isinstance(buffer, Array):  # the user's own
            return Array(buffer.host.view(dtype).reshape(shape))
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return Array(self.runtime.memory_of[buffer][:n_bytes].view(dtype).reshape(shape))


class Runtime:
    """An OpenCL runtime whose kernels take `Array`s, and whose buffers can be read as such."""

    device_name = "cuda:0"

    def __init__(self, real: Any, module: types.ModuleType) -> None:
        self.real = real
        self.memory_of: dict[Any, np.ndarray] = {}
        self.copied: list[int] = []  # bytes of each copy between host and device
        self.arrays = Bridge(self, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def allocate(self, n_bytes: int) -> Any:
        memory = np.zeros(max(1, -(-n_bytes // 8)), np.float64).view(np.uint8)
        buffer = cl.Buffer(self.real.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=memory)
        self.memory_of[buffer] = memory
        return buffer

    def free(self, buffer: Any) -> None:
        self.real.synchronize()
        del self.memory_of[buffer]
        self.real.free(buffer)

    def upload(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        self.copied.append(array.nbytes)
        self.real.upload(buffer, array, offset)

    def download(self, buffer: Any, out: np.ndarray, offset: int = 0) -> None:
        self.copied.append(out.nbytes)
        self.real.download(buffer, out, offset)

    def download_later(self, buffer: Any, out: np.ndarray, offset: int = 0) -> Any:
        self.copied.append(out.nbytes)
        return self.real.download_later(buffer, out, offset)

    def launch(self, kernel: Any, groups: int, *arguments: Any) -> None:
        assert self.arrays.depth == 0 or self.arrays.launching, "launched while arrays are worked on"
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
    module.__getattr__ = lambda name: lambda *given, **options: _call(getattr(np, name), *given, **options)
    module.ndarray = Array
    module.empty = lambda shape, dtype: Array(np.full(shape, 77, dtype))
    module.asarray = lambda array: array if isinstance(array, Array) else Array(np.array(array))
    module.ascontiguousarray = lambda array: Array(np.array(array.host, order="C"))
    stream = types.SimpleNamespace(synchronize=lambda: None)
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", module)
    runtime = Runtime(opencl.open_device(0), module)
    open_ = gpus.open_runtime
    monkeypatch.setattr(gpus, "open_runtime", lambda name: runtime if name.startswith("cuda") else open_(name))
    module.runtime = runtime
    return module


def install_device(monkeypatch: Any) -> types.ModuleType:
    """The same, and let trainings on device="cuda" run there."""
    module = install(monkeypatch)
    choose = devices.choose_device
    cuda = ("cuda", "cuda:0")
    monkeypatch.setattr(devices, "choose_device", lambda name, n=0: "cuda:0" if name in cuda else choose(name, n))
    return module
