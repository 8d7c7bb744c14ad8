"""A stand-in for the part of CuPy that cuda.py takes, over the OpenCL device 0: streams, graphs, memory and modules.

Kernels are the ones of the package in OpenCL's dialect, so trainings on "cuda:0" run, and give the models they should.
The stand-in is as strict as CUDA is, and says what CUDA would only do: while a thread records, no other one may touch
the stream, nobody may wait for it, and what is launched must be launched with its device as the current one.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
import threading
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from hornbeam.backends.gpu import runtime as runtime_package
from hornbeam.backends.gpu.runtime import opencl
from hornbeam.backends.gpu.runtime.runtime import Variant

CURRENT = threading.local()
"""The device of each thread, 0 at first."""


class CUDARuntimeError(RuntimeError):
    """As CuPy's: a status, and a text that begins with its name."""

    __module__ = "cupy_backends.cuda.api.runtime"

    def __init__(self, status: int, text: str = "cudaErrorUnknown: unknown error") -> None:
        self.status = status
        super().__init__(text)


class OutOfMemoryError(MemoryError):
    """As CuPy's."""

    __module__ = "cupy.cuda.memory"


class CompileException(Exception):  # noqa: N818 - its name
    """As CuPy's: the log of the compiler."""

    __module__ = "cupy.cuda.compiler"


class Driver:
    """What all parts of the stand-in share.

    real     runtime of the OpenCL device
    failing  error to be raised by an operation, by name; None: none. "launch" fails when `skip` launches were done
    misuse   what CUDA forbids and was done all the same
    """

    def __init__(self, n_devices: int, memory_bytes: int) -> None:
        self.real = opencl.open_device(0)
        self.n_devices, self.memory_bytes = n_devices, memory_bytes
        self.used_bytes = 0
        self.failing: dict[str, tuple[int, Exception]] = {}
        self.misuse: list[str] = []
        self.n_graphs = 0
        self.addresses: dict[int, Any] = {}
        self.groups: dict[tuple[int, ...], NcclGroup] = {}
        self.lock = threading.RLock()

    runtime_error, out_of_memory, compile_error = CUDARuntimeError, OutOfMemoryError, CompileException

    def fail(self, operation: str, error: Exception, skip: int = 0) -> None:
        """Let an operation fail from now on, after so many times."""
        self.failing[operation] = skip, error

    def enter(self, operation: str) -> None:
        """Fail, if that is asked for."""
        with self.lock:
            if operation in self.failing:
                skip, error = self.failing[operation]
                if skip == 0:
                    raise error
                self.failing[operation] = skip - 1, error

    def address_of(self, thing: Any) -> int:
        """Return a number for memory or a stream, as libraries take them; `at` has the thing again."""
        with self.lock:
            self.addresses[id(thing)] = thing
            return id(thing)

    def at(self, address: int) -> Any:
        return self.addresses[address]

    def forbid(self, what: str) -> None:
        self.misuse.append(what)
        raise CUDARuntimeError(900, f"cudaErrorStreamCaptureUnsupported: {what}")


class Device(contextlib.AbstractContextManager):
    def __init__(self, number: int) -> None:
        self.id = number
        self.attributes: dict[str, int] = {}

    def __enter__(self) -> Device:
        self._stack().append(getattr(CURRENT, "number", 0))
        CURRENT.number = self.id
        return self

    def __exit__(self, *error: object) -> None:
        CURRENT.number = self._stack().pop()

    @staticmethod
    def _stack() -> list[int]:
        if not hasattr(CURRENT, "before"):
            CURRENT.before = []
        return CURRENT.before


class Stream(contextlib.AbstractContextManager):
    """A queue; while it records, work is noted and not done."""

    def __init__(self, driver: Driver) -> None:
        driver.enter("stream")
        self.driver = driver
        self.device = getattr(CURRENT, "number", 0)
        self.recorder: int | None = None
        self.recorded: list[Any] = []

    def __exit__(self, *error: object) -> None:
        pass

    @property
    def ptr(self) -> int:
        return self.driver.address_of(self)

    def do(self, operation: str, work: Any, recordable: bool = True) -> None:
        """Do or record a piece of work."""
        driver = self.driver
        driver.enter(operation)
        with driver.lock:
            if getattr(CURRENT, "number", 0) != self.device:
                driver.forbid(f"{operation} while another device is the current one")
            if self.recorder is None:
                work()
            elif self.recorder != threading.get_ident():
                driver.forbid(f"{operation} of one thread while another one records")
            elif not recordable:
                driver.forbid(f"{operation} while recording")
            else:
                self.recorded.append(work)

    def synchronize(self) -> None:
        self.do("synchronize", self.driver.real.queue.finish, recordable=False)

    def begin_capture(self) -> None:
        self.driver.enter("begin_capture")
        with self.driver.lock:
            if self.recorder is not None:
                self.driver.forbid("recording in two threads")
            self.recorder, self.recorded = threading.get_ident(), []

    def end_capture(self) -> Graph:
        with self.driver.lock:
            recorded, self.recorder, self.recorded = self.recorded, None, []
        self.driver.enter("end_capture")
        self.driver.n_graphs += 1
        return Graph(self.driver, recorded)

    def record(self, event: Event) -> Event:
        self.do("record", lambda: None, recordable=False)
        return event


class Graph:
    def __init__(self, driver: Driver, recorded: list[Any]) -> None:
        self.driver, self.recorded = driver, recorded

    def launch(self, stream: Stream) -> None:
        def work() -> None:
            for part in self.recorded:
                part()

        stream.do("graph", work, recordable=False)


class Event:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    done = True

    def synchronize(self) -> None:
        self.driver.enter("event")
        self.driver.real.queue.finish()


class Memory:
    """A buffer, which is free when nobody knows it any more."""

    def __init__(self, driver: Driver, size: int) -> None:
        self.driver, self.size = driver, size
        self.buffer = cl.Buffer(driver.real.context, cl.mem_flags.READ_WRITE, size)
        with driver.lock:
            driver.used_bytes += size

    def __del__(self) -> None:
        with self.driver.lock:
            self.driver.used_bytes -= self.size


class MemoryPointer:
    """A place in memory."""

    def __init__(self, memory: Memory, offset: int = 0) -> None:
        self.driver, self.memory, self.offset = memory.driver, memory, offset
        self.buffer = memory.buffer

    @property
    def ptr(self) -> int:
        return self.driver.address_of(self)

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.memory, self.offset + offset)

    def copy_from_host_async(self, address: int, size: int, stream: Stream) -> None:
        host = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        queue = self.driver.real.queue
        stream.do("upload", lambda: cl.enqueue_copy(queue, self.buffer, host, dst_offset=self.offset), recordable=False)

    def copy_to_host_async(self, address: int, size: int, stream: Stream) -> None:
        host = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        queue = self.driver.real.queue
        stream.do(
            "download", lambda: cl.enqueue_copy(queue, host, self.buffer, src_offset=self.offset), recordable=False
        )

    def memset_async(self, value: int, size: int, stream: Stream) -> None:
        queue = self.driver.real.queue
        fill = np.uint8(value)
        stream.do("memset", lambda: cl.enqueue_fill_buffer(queue, self.buffer, fill, self.offset, size))


class PinnedMemory:
    """Memory of the host that kernels reach."""

    def __init__(self, driver: Driver, size: int) -> None:
        driver.enter("pinned")
        self.driver, self.ptr = driver, 0
        self.buffer = cl.Buffer(driver.real.context, cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR, size)


class MemoryPool:
    """Memory of the device; nothing is kept."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def malloc(self, size: int) -> MemoryPointer:
        driver = self.driver
        driver.enter("malloc")
        with driver.lock:
            if driver.used_bytes + size > driver.memory_bytes:
                raise OutOfMemoryError(f"Out of memory allocating {size} bytes (allocated so far: {driver.used_bytes})")
            return MemoryPointer(Memory(driver, size))

    def free_all_blocks(self) -> None:
        self.driver.enter("free")

    def free_bytes(self) -> int:
        return 0

    def used_bytes(self) -> int:
        return self.driver.used_bytes

    total_bytes = used_bytes


class Ndarray:
    """Memory with a type; kernels take it."""

    __module__ = "cupy"

    def __init__(self, shape: tuple[int, ...], dtype: Any, data: MemoryPointer) -> None:
        self.shape, self.dtype, self.data = shape, np.dtype(dtype), data


class RawModule:
    """The kernels of one source file, compiled by OpenCL; names and values are read off what NVRTC would get."""

    def __init__(self, driver: Driver, code: str, options: tuple[str, ...]) -> None:
        given = re.findall(r"#define (\w+) (\d+)", code.partition("#line")[0])
        fields = {name.lower(): int(value) for name, value in given}
        self.driver = driver
        self.variant = Variant(re.findall(r'#line 1 "(.+)"', code)[-1], **fields)

    def compile(self) -> None:
        self.driver.enter("compile")

    def get_function(self, name: str) -> RawKernel:
        self.driver.enter("get_function")
        return RawKernel(self.driver, name, self.driver.real.kernel(name, self.variant))


class RawKernel:
    def __init__(self, driver: Driver, name: str, real: Any) -> None:
        self.driver, self.name, self.real = driver, name, real
        self.max_dynamic_shared_size_bytes = 0

    def kernel(self, grid: Any, block: Any, arguments: Any, local_bytes: int, stream: Stream) -> None:
        kernel = replace(self.real, threads=block[0])  # OpenCL refuses what a kernel was not compiled for
        plain = [argument.data.buffer if isinstance(argument, Ndarray) else argument for argument in arguments]
        stream.do("launch", lambda: self.driver.real.launch(kernel, grid[0], *plain))


class NcclGroup:
    """Where the ranks of one group meet; `n_reduced`: how often buffers were added up."""

    def __init__(self, size: int) -> None:
        self.barrier, self.values = threading.Barrier(size), dict[int, Any]()
        self.devices: dict[int, int] = {}
        self.n_reduced = 0


class NcclCommunicator:
    """One rank; sums are made on the host when all have come."""

    def __init__(self, driver: Driver, size: int, group_id: bytes, rank: int) -> None:
        driver.enter("nccl")
        assert len(group_id) == 128
        with driver.lock:
            self.group = driver.groups.setdefault(group_id, NcclGroup(size))
        self.driver, self.size, self.rank, self.is_open = driver, size, rank, True
        self.group.devices[rank] = getattr(CURRENT, "number", 0)
        self.group.barrier.wait(60)
        assert len(set(self.group.devices.values())) == size, "two ranks have one device"

    def reduceScatter(self, send: int, receive: int, n: int, kind: int, op: int, stream: int) -> None:
        assert self.is_open and op == 0
        self.driver.enter("reduceScatter")
        dtype, source, target = (
            np.dtype({2: np.int32, 4: np.int64}[kind]),
            self.driver.at(send),
            self.driver.at(receive),
        )
        values, queue = np.empty((self.size, n), dtype), self.driver.real.queue
        in_stream = self.driver.at(stream)
        in_stream.do("nccl", lambda: cl.enqueue_copy(queue, values, source.buffer, src_offset=source.offset))
        self.group.values[self.rank] = values
        self.group.barrier.wait(60)
        total = sum(each[self.rank] for each in self.group.values.values())
        self.group.barrier.wait(60)
        self.group.n_reduced += self.rank == 0
        in_stream.do("nccl", lambda: cl.enqueue_copy(queue, target.buffer, total, dst_offset=target.offset))

    def destroy(self) -> None:
        self.is_open = False

    abort = destroy


def nccl_module(driver: Driver) -> Any:
    """Return the part of cupy.cuda.nccl that is used; numbers are NCCL's."""
    rng = np.random.default_rng()
    return types.SimpleNamespace(
        available=True,
        get_unique_id=lambda: rng.bytes(128),
        NcclCommunicator=lambda *given: NcclCommunicator(driver, *given),
        NCCL_INT32=2,
        NCCL_INT64=4,
        NCCL_SUM=0,
    )


def pinned(driver: Driver, n_bytes: int) -> Any:
    driver.enter("pinned")
    return type("Pinned", (ctypes.c_uint8 * n_bytes,), {"ptr": property(ctypes.addressof)})()


def install(monkeypatch: Any, n_devices: int = 1, memory_bytes: int = 1 << 30) -> Driver:
    """Put it in CuPy's place until the end of a test, with a cuda.py that has opened no device yet."""
    driver = Driver(n_devices, memory_bytes)
    properties = {
        "name": b"Stand-in",
        "totalGlobalMem": memory_bytes,
        "multiProcessorCount": 2,
        "maxThreadsPerBlock": driver.real.facts.max_threads,
        "sharedMemPerBlock": driver.real.facts.local_bytes,
    }

    def count() -> int:
        driver.enter("count")
        return driver.n_devices

    cupy = types.ModuleType("cupy")
    cupy.ndarray = Ndarray
    cupy.RawModule = lambda code, options, backend: RawModule(driver, code, options)
    cupy.cuda = types.SimpleNamespace(
        Device=Device,
        Event=lambda disable_timing: Event(driver),
        MemoryPool=lambda: MemoryPool(driver),
        MemoryPointer=MemoryPointer,
        PinnedMemory=lambda size: PinnedMemory(driver, size),
        UnownedMemory=lambda address, size, owner, number: owner,
        Stream=lambda non_blocking: Stream(driver),
        alloc_pinned_memory=lambda n_bytes: pinned(driver, n_bytes),
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=types.SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDevice=lambda: getattr(CURRENT, "number", 0),
            deviceGetPCIBusId=lambda number: f"0000:{number:02x}:00.0",
            getDeviceCount=count,
            getDeviceProperties=lambda number: properties,
            memGetInfo=lambda: (memory_bytes - driver.used_bytes, memory_bytes),
        ),
    )
    cupy.cuda.nccl = nccl_module(driver)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy.cuda)
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", cupy.cuda.nccl)
    monkeypatch.delitem(sys.modules, "hornbeam.backends.gpu.runtime.cuda", raising=False)
    monkeypatch.delattr(runtime_package, "cuda", raising=False)
    return driver
