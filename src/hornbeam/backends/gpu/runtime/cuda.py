"""CUDA through CuPy: kernels are compiled by NVRTC and cached on disk by CuPy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import cupy
import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime.programs import Programs
from hornbeam.backends.gpu.runtime.runtime import Buffer, DeviceFacts, Kernel, Variant, source_text
from hornbeam.core.errors import DeviceError, DeviceMemoryError
from hornbeam.data.cuda_errors import cupy_errors, device_error

PINNED_BYTES = 1 << 20
"""Arrays up to this size travel through page-locked memory: from ordinary memory the driver would copy them once more,
and wait for the kernels before."""

RING_BYTES = 4 << 20
"""Page-locked memory for uploads that are still under way."""

LOOK_SECONDS = 0.00002
"""Whoever waits with a limit looks this often."""

OPTIONS = ("-std=c++17", "--fmad=false")

_opening = threading.Lock()

P = ParamSpec("P")
T = TypeVar("T")


def count_devices() -> int:
    """Return the number of CUDA devices; CuPy's error says why there are none."""
    return int(cupy.cuda.runtime.getDeviceCount())


def describe(number: int) -> str:
    """Return the name of a device and its memory."""
    properties = cupy.cuda.runtime.getDeviceProperties(number)
    return f"{properties['name'].decode()}, {properties['totalGlobalMem'] / 2**30:.0f} GB"


def compute_units(number: int) -> int:
    """Return the number of multiprocessors of a device."""
    return int(cupy.cuda.runtime.getDeviceProperties(number)["multiProcessorCount"])


def identity(number: int) -> str:
    """Return what names a device on all machines, whichever number a process has for it."""
    properties = cupy.cuda.runtime.getDeviceProperties(number)
    return f"{cupy.cuda.runtime.deviceGetPCIBusId(number)} {properties.get('uuid')!r}"


def open_device(number: int) -> CudaRuntime:
    """Return the runtime of a device, one a process."""
    with _opening:  # two threads that ask at once get the same
        return _open_device(number)


@cache
def _open_device(number: int) -> CudaRuntime:
    with cupy_errors(f"cuda:{number}", "opening it"):
        n_devices = count_devices()
        if number >= n_devices:
            raise DeviceError(f"device='cuda:{number}': this machine has {n_devices} CUDA device(s), counted from 0")
        return CudaRuntime(number)


def _reported(
    what: str,
) -> Callable[[Callable[Concatenate[CudaRuntime, P], T]], Callable[Concatenate[CudaRuntime, P], T]]:
    """Let a method of the runtime raise our errors where CuPy raises its own."""

    def decorate(method: Callable[Concatenate[CudaRuntime, P], T]) -> Callable[Concatenate[CudaRuntime, P], T]:
        @wraps(method)
        def reported(self: CudaRuntime, /, *arguments: P.args, **named: P.kwargs) -> T:
            try:
                return method(self, *arguments, **named)
            except Exception as error:
                self.report(error, what)
                raise

        return reported

    return decorate


class CupyBridge:
    """CuPy's arrays beside the launches of one device; see runtime.ArrayBridge.

    What CuPy does is in its current stream of the calling thread. That is the null stream unless the user chose
    another, and so the one in which other libraries (PyTorch) work as well.
    """

    xp = cupy

    def __init__(self, device: Any, stream: Any, lock: threading.RLock, name: str) -> None:
        self.device = f"cuda:{device.id}"
        self._device, self._stream, self._lock, self._name = device, stream, lock, name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Make the device current, and order the streams at both ends."""
        with self._device:
            self.after_launches()
            try:
                yield
            except cupy.cuda.memory.OutOfMemoryError as error:
                raise DeviceMemoryError(
                    f"{self._name} has no memory for the arrays of a function marked by on_device ({error}); a "
                    "device_memory_limit leaves more to them, and without the mark they are in host memory"
                ) from error
            finally:
                self.before_launches()

    def after_launches(self) -> None:
        """Let CuPy's current stream wait for ours."""
        with self._lock:
            launched = self._stream.record(cupy.cuda.Event(disable_timing=True))
        cupy.cuda.get_current_stream().wait_event(launched)

    def before_launches(self) -> None:
        """Let our stream wait for CuPy's current one."""
        done = cupy.cuda.get_current_stream().record(cupy.cuda.Event(disable_timing=True))
        with self._lock:
            self._stream.wait_event(done)

    def array_of(self, buffer: Buffer, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of a buffer's memory."""
        return cupy.ndarray(shape, dtype, buffer.data)


class CudaRuntime:
    """One CUDA device with a memory pool of its own, a stream, and compiled modules.

    All threads share the stream. What one of them records must not contain what another asks for meanwhile, and a
    stream that is recording cannot be waited for: so everything that touches the stream or the memory holds the lock,
    and recording holds it from the beginning to the end.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.RLock()
        self.device = cupy.cuda.Device(number)
        self.device_name, self.identity = f"cuda:{number}", identity(number)
        with self.device:
            properties = cupy.cuda.runtime.getDeviceProperties(number)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self._pool = cupy.cuda.MemoryPool()
            self._pinned = cupy.cuda.alloc_pinned_memory(PINNED_BYTES)
            self._ring = cupy.cuda.alloc_pinned_memory(RING_BYTES)
        self._pinned_array = np.frombuffer(self._pinned, np.uint8, PINNED_BYTES)
        self._ring_array = np.frombuffer(self._ring, np.uint8, RING_BYTES)
        self._ring_used = 0
        self._landings: list[Any] = []  # page-locked memory for downloads that are under way, when they are done
        attributes = self.device.attributes
        local = attributes.get("MaxSharedMemoryPerBlockOptin") or properties["sharedMemPerBlock"]
        self.facts = DeviceFacts(
            name=describe(number),
            is_gpu=True,
            compute_units=int(properties["multiProcessorCount"]),
            max_threads=int(properties["maxThreadsPerBlock"]),
            local_bytes=int(local),
            memory_bytes=int(properties["totalGlobalMem"]),
            max_buffer_bytes=int(properties["totalGlobalMem"]),
        )
        self.arrays = CupyBridge(self.device, self.stream, self._lock, self.facts.name)
        self._modules = Programs(self._build, self.facts.name)
        self._kernels: dict[tuple[str, Variant], Kernel] = {}

    def allocate(self, n_bytes: int) -> Buffer:
        """Return memory."""
        size = max(8, n_bytes)
        try:
            with self.device, self._lock, self.stream:
                return cupy.ndarray((size,), np.uint8, self._pool.malloc(size))
        except Exception as error:
            self.report(error, f"giving {n_bytes / 2**20:,.1f} MB")
            raise

    def allocate_on_host(self, n_bytes: int) -> Buffer:
        """Return page-locked memory, which the device knows by the same address."""
        size = max(8, n_bytes)
        try:
            with self.device, self._lock:
                memory = cupy.cuda.PinnedMemory(size)
                place = cupy.cuda.UnownedMemory(memory.ptr, size, memory, self._number)
                return cupy.ndarray((size,), np.uint8, cupy.cuda.MemoryPointer(place, 0))
        except Exception as error:
            self.report(error, f"giving {n_bytes / 2**20:,.1f} MB of host memory")
            raise

    def report(self, error: Exception, what: str) -> None:
        """Raise what users should see if an error is CuPy's; see cuda_errors.py."""
        ours = device_error(error, self.facts.name, what)
        if ours is not None:
            raise ours from error

    def free(self, buffer: Buffer) -> None:
        """Memory goes back to the pool with the last reference."""

    @_reported("giving memory back")
    def trim(self) -> None:
        """Give the pool's unused memory back to the device."""
        with self.device, self._lock:
            self._wait()
            self._pool.free_all_blocks()

    @_reported("telling its memory")
    def free_bytes(self) -> int | None:
        """Return what the device has free, and what the pool keeps."""
        with self.device, self._lock:
            return int(cupy.cuda.runtime.memGetInfo()[0]) + int(self._pool.free_bytes())

    def held_bytes(self) -> tuple[int, int]:
        """Return the bytes of all buffers, and with them what the pool keeps of buffers that are gone."""
        return int(self._pool.used_bytes()), int(self._pool.total_bytes())

    @_reported("copying to the device")
    def upload(self, buffer: Buffer, array: NDArray[Any], offset: int = 0) -> None:
        """Copy to the device; the array may be changed as soon as this returns."""
        n_bytes = array.nbytes
        if n_bytes == 0:
            return
        with self.device, self._lock:
            target = buffer.data + offset
            if n_bytes > PINNED_BYTES:
                target.copy_from_host_async(array.ctypes.data, n_bytes, self.stream)
                self._wait()
                return
            if self._ring_used + n_bytes > RING_BYTES:
                self._wait()
            place = self._ring_used
            self._ring_array[place : place + n_bytes] = array.reshape(-1).view(np.uint8)
            target.copy_from_host_async(self._ring.ptr + place, n_bytes, self.stream)
            self._ring_used = place + (n_bytes + 63) // 64 * 64

    @_reported("copying from the device")
    def download(self, buffer: Buffer, out: NDArray[Any], offset: int = 0) -> None:
        """Copy from the device."""
        if out.nbytes == 0:
            return
        with self.device, self._lock:
            small = out.nbytes <= PINNED_BYTES
            target = self._pinned.ptr if small else out.ctypes.data
            (buffer.data + offset).copy_to_host_async(target, out.nbytes, self.stream)
            self._wait()
            if small:
                out.reshape(-1).view(np.uint8)[:] = self._pinned_array[: out.nbytes]

    @_reported("copying from the device")
    def download_later(self, buffer: Buffer, out: NDArray[Any], offset: int = 0) -> Callable[[], None]:
        """Start copying from the device; the function returned waits for the copy."""
        if out.nbytes > PINNED_BYTES:
            self.download(buffer, out, offset)
            return lambda: None
        with self.device, self._lock:
            landing = self._landings.pop() if self._landings else cupy.cuda.alloc_pinned_memory(PINNED_BYTES)
            (buffer.data + offset).copy_to_host_async(landing.ptr, out.nbytes, self.stream)
            copied = self.stream.record(cupy.cuda.Event(disable_timing=True))

        def wait() -> None:
            try:
                copied.synchronize()
            except Exception as error:
                self.report(error, "running kernels")
                raise
            out.reshape(-1).view(np.uint8)[:] = np.frombuffer(landing, np.uint8, out.nbytes)
            self._landings.append(landing)

        return wait

    @_reported("clearing memory")
    def zero(self, buffer: Buffer, n_bytes: int) -> None:
        """Clear memory."""
        if n_bytes:
            with self.device, self._lock:
                buffer.data.memset_async(0, n_bytes, self.stream)

    @_reported("loading a kernel")
    def kernel(self, name: str, variant: Variant, local_bytes: int = 0) -> Kernel:
        """Return a compiled kernel."""
        with self._lock:
            key = (name, variant)
            if key not in self._kernels:
                with self.device:
                    handle = self._modules.get(variant).get_function(name)
                    if local_bytes > 48 << 10:
                        handle.max_dynamic_shared_size_bytes = local_bytes
                self._kernels[key] = Kernel(handle, variant.threads, local_bytes)
            return self._kernels[key]

    def compile_soon(self, variants: Iterable[Variant]) -> None:
        """Begin to compile them, several at once: NVRTC takes a third of a second each."""
        with self._lock:
            self._modules.begin(variants)

    def _build(self, variant: Variant) -> Any:
        """Compile a file; called from any thread.

        What distinguishes variants is in the text and not among the options: with every new option CuPy calls NVRTC
        once more, for 16 ms, even if it then finds the result on disk.
        """
        defines = "".join(f"#define {name} {value}\n" for name, value in variant.values().items())
        code = defines + source_text("prelude_cuda.h", variant.source)
        module = cupy.RawModule(code=code, options=OPTIONS, backend="nvrtc")
        try:
            with self.device:
                module.compile()
        except Exception as error:
            raise DeviceError(
                f"{variant.source} does not compile for {self.facts.name} with {' '.join(variant.defines())}; "
                f"please report this. The compiler says:\n{error}"
            ) from error
        return module

    def launch(self, kernel: Kernel, groups: int, *arguments: Any) -> None:
        """Run a kernel; a tree has about a hundred launches, so the device is entered only where that matters."""
        try:
            with self._lock:
                if cupy.cuda.runtime.getDevice() == self._number:
                    kernel.handle.kernel((groups,), (kernel.threads,), arguments, kernel.local_bytes, self.stream)
                else:
                    with self.device:
                        kernel.handle.kernel((groups,), (kernel.threads,), arguments, kernel.local_bytes, self.stream)
        except Exception as error:
            self.report(error, "launching a kernel")
            raise

    @_reported("recording kernels")
    def repeatable(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Record the launches as a graph: replaying eight kernels costs what one launch from Python does."""
        with self.device, self._lock:
            self.stream.begin_capture()
            try:
                launches()
            except BaseException:
                with suppress(Exception):  # which says once more what went wrong; the stream does work again
                    self.stream.end_capture()
                raise
            graph = self.stream.end_capture()

        def replay() -> None:
            try:
                with self._lock:
                    if cupy.cuda.runtime.getDevice() == self._number:
                        graph.launch(stream=self.stream)
                    else:
                        with self.device:
                            graph.launch(stream=self.stream)
            except Exception as error:
                self.report(error, "launching recorded kernels")
                raise

        return replay

    @_reported("working with other devices")
    def enqueue(self, work: Callable[[int], None]) -> None:
        """Let another library put work into the stream; it is given its address."""
        with self.device, self._lock:
            work(self.stream.ptr)

    @_reported("running kernels")
    def wait(self, seconds: float) -> bool:
        """Wait for everything so far, but no longer than that; returns whether it is done."""
        with self.device, self._lock:
            done = self.stream.record(cupy.cuda.Event(disable_timing=True))
        until = time.monotonic() + seconds
        while not done.done:
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    @_reported("running kernels")
    def synchronize(self) -> None:
        """Wait."""
        with self.device, self._lock:
            self._wait()

    def _wait(self) -> None:
        """Wait for the stream; then no upload is under way any more."""
        self.stream.synchronize()
        self._ring_used = 0

    def close(self) -> None:
        """Give the pool's memory back; whoever waited for a result knows if there is no device any more."""
        with suppress(DeviceError):
            self.trim()
