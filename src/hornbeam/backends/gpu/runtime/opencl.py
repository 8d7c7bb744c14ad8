"""OpenCL through PyOpenCL: GPUs of any vendor, and CPUs (PoCL), on which the tests run the very same kernels."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pyopencl as cl
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime.programs import Programs
from hornbeam.backends.gpu.runtime.runtime import Buffer, DeviceFacts, Kernel, Variant, source_text
from hornbeam.core.errors import DeviceError, DeviceMemoryError

_opening = threading.Lock()


def list_devices() -> list[Any]:
    """Return the OpenCL devices of all platforms, GPUs first; their places here are the numbers in "opencl:0"."""
    found = []
    for platform in cl.get_platforms():
        try:
            found.extend(platform.get_devices())
        except cl.Error:  # a platform without devices
            continue
    return sorted(found, key=lambda device: not device.type & cl.device_type.GPU)


def describe(device: Any) -> str:
    """Return the name of a device and of its platform."""
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def compute_units(device: Any) -> int:
    """Return the number of compute units of a GPU; 0 for other devices, CPUs above all."""
    return int(device.max_compute_units) if device.type & cl.device_type.GPU else 0


def why_not(device: Any) -> str | None:
    """Return why a device cannot be used, or None."""
    if "cl_khr_fp64" not in device.extensions.split():
        return f"{describe(device)} has no 64-bit floating point (cl_khr_fp64), which identical models need"
    if not device.available or not device.compiler_available:
        return f"{describe(device)} has no compiler or is not available"
    return None


def open_device(number: int) -> OpenCLRuntime:
    """Return the runtime of a device, one a process."""
    with _opening:  # two threads that ask at once get the same
        return _open_device(number)


@cache
def _open_device(number: int) -> OpenCLRuntime:
    found = list_devices()
    if number >= len(found):
        raise DeviceError(f"device='opencl:{number}': this machine has {len(found)} OpenCL device(s), counted from 0")
    reason = why_not(found[number])
    if reason is not None:
        raise DeviceError(f"device='opencl:{number}': {reason}")
    return OpenCLRuntime(found[number])


class OpenCLRuntime:
    """One OpenCL device with a context, an in-order queue and compiled programs."""

    arrays = None
    device_name = "opencl"

    def __init__(self, device: Any) -> None:
        self.device = device
        self.facts = DeviceFacts(
            name=describe(device),
            is_gpu=bool(device.type & cl.device_type.GPU),
            compute_units=int(device.max_compute_units),
            max_threads=int(device.max_work_group_size),
            local_bytes=int(device.local_mem_size),
            memory_bytes=int(device.global_mem_size),
            max_buffer_bytes=int(device.max_mem_alloc_size),
        )
        self.context = self._checked(cl.Context, [device])
        self.queue = self._checked(cl.CommandQueue, self.context)
        self._options = ["-cl-std=CL1.2"]
        if "cl_khr_int64_base_atomics" in device.extensions.split():
            self._options.append("-DATOMIC64")
        if device.platform.name == "Oclgrind":  # its interpreter does not know all that an optimiser makes
            self._options.append("-cl-opt-disable")
        self._programs = Programs(self._build, self.facts.name)
        self._kernels: dict[tuple[str, Variant], Kernel] = {}
        self._uploading: list[Any] = []  # an event holds the host's array until its copy is done
        self._lock = threading.RLock()

    def allocate(self, n_bytes: int) -> Buffer:
        """Return memory."""
        return self._allocate(n_bytes, cl.mem_flags.READ_WRITE)

    def allocate_on_host(self, n_bytes: int) -> Buffer:
        """Return memory that the driver keeps where the host has it, as far as it follows that wish."""
        return self._allocate(n_bytes, cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR)

    def _allocate(self, n_bytes: int, flags: int) -> Buffer:
        try:
            return cl.Buffer(self.context, flags, max(8, n_bytes))
        except cl.Error as error:
            raise DeviceMemoryError(
                f"{self.facts.name} cannot give {n_bytes / 2**20:,.1f} MB of memory ({error}); fewer bins (max_bin), a "
                "smaller histogram_pool_size or a device_memory_limit help"
            ) from error

    def free(self, buffer: Buffer) -> None:
        """Give memory back."""
        self._checked(buffer.release)

    def trim(self) -> None:
        """Nothing is kept."""

    def free_bytes(self) -> int | None:
        """OpenCL does not tell."""
        return None

    def upload(self, buffer: Buffer, array: NDArray[Any], offset: int = 0) -> None:
        """Copy to the device."""
        if array.nbytes:
            with self._lock:
                self._uploading.append(
                    self._checked(cl.enqueue_copy, self.queue, buffer, array, dst_offset=offset, is_blocking=False)
                )

    def download(self, buffer: Buffer, out: NDArray[Any], offset: int = 0) -> None:
        """Copy from the device."""
        if out.nbytes:
            uploading = self._asked_for()
            self._checked(cl.enqueue_copy, self.queue, out, buffer, src_offset=offset, is_blocking=True)
            uploading.clear()

    def download_later(self, buffer: Buffer, out: NDArray[Any], offset: int = 0) -> Callable[[], None]:
        """Start copying from the device; the function returned waits for the copy."""
        with self._lock:
            copied = self._checked(cl.enqueue_copy, self.queue, out, buffer, src_offset=offset, is_blocking=False)
            self._checked(self.queue.flush)
            uploading = self._asked_for()

        def wait() -> None:
            self._checked(copied.wait)
            uploading.clear()

        return wait

    def _asked_for(self) -> list[Any]:
        """Return the uploads asked for so far: whoever waits for something that comes after them lets them go."""
        with self._lock:
            uploading, self._uploading = self._uploading, []
            return uploading

    def zero(self, buffer: Buffer, n_bytes: int) -> None:
        """Clear memory."""
        if n_bytes:
            self._checked(cl.enqueue_fill_buffer, self.queue, buffer, np.uint32(0), 0, n_bytes)

    def kernel(self, name: str, variant: Variant, local_bytes: int = 0) -> Kernel:
        """Return a compiled kernel; the size of local arrays is known to the compiler."""
        with self._lock:
            key = (name, variant)
            if key not in self._kernels:
                program = self._programs.get(variant)
                self._kernels[key] = Kernel(self._checked(cl.Kernel, program, name), variant.threads)
            return self._kernels[key]

    def compile_soon(self, variants: Iterable[Variant]) -> None:
        """Leave it to `kernel`: not every driver compiles in several threads."""

    def _build(self, variant: Variant) -> Any:
        program = cl.Program(self.context, source_text("prelude_opencl.h", variant.source))
        try:
            with warnings.catch_warnings():  # PyOpenCL warns when the compiler says anything at all
                warnings.simplefilter("ignore")
                return program.build(options=[*self._options, *variant.defines()])
        except cl.Error as error:
            raise DeviceError(
                f"{variant.source} does not compile for {self.facts.name} with {' '.join(variant.defines())}; "
                f"please report this. The compiler says:\n{error}"
            ) from error

    def launch(self, kernel: Kernel, groups: int, *arguments: Any) -> None:
        """Run a kernel; a kernel object holds its arguments, so that only one thread may set them at a time."""
        with self._lock:
            self._checked(kernel.handle.set_args, *arguments)
            self._checked(
                cl.enqueue_nd_range_kernel, self.queue, kernel.handle, (groups * kernel.threads,), (kernel.threads,)
            )

    def repeatable(self, launches: Callable[[], None]) -> Callable[[], None]:
        """OpenCL has nothing to record with: launch each time."""
        return launches

    def synchronize(self) -> None:
        """Wait."""
        uploading = self._asked_for()
        self._checked(self.queue.finish)
        uploading.clear()

    def close(self) -> None:
        """Nothing is kept but compiled programs; whoever waited for a result knows if there is no device any more."""
        with suppress(DeviceError):
            self.synchronize()

    def _checked(self, call: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except cl.Error as error:
            kind = DeviceMemoryError if _is_memory(error) else DeviceError
            raise kind(
                f"{self.facts.name}: {error}; if it ran out of memory, fewer bins (max_bin) or a smaller "
                "histogram_pool_size help, and device='cpu' does without it"
            ) from error


def _is_memory(error: Any) -> bool:
    """Say whether a device, or the host for it, has too little memory."""
    codes = cl.status_code
    short = (codes.MEM_OBJECT_ALLOCATION_FAILURE, codes.OUT_OF_RESOURCES, codes.OUT_OF_HOST_MEMORY)
    return isinstance(error, cl.MemoryError) or error.code in short
