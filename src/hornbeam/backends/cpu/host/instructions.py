"""What the compiler makes of the names that kernels.instruction has made: LLVM's IR by hand.

Each function here has the name of one, takes the types of its arguments, and returns its signature and what generates
its code, as Numba's intrinsics do.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import populate_array

from hornbeam.backends.cpu.host.atomics import ROOM

PAUSES = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "amd64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.isb", (15,)),
    "arm64": ("llvm.aarch64.isb", (15,)),
}
"""What a thread does between two looks, by machine: an intrinsic of LLVM and its arguments."""

OTHERS, SLEEP = "hornbeam_let_others_run", "hornbeam_sleep"
"""Functions of the system that kernels call; the shared library has its own of these names."""

_INT, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_JOB = ir.FunctionType(_INT, [_BYTES, _INT])
_WORDS = types.Array(types.int64, 1, "C")


def provide_system_calls() -> None:
    """Tell LLVM where the functions of the system are."""
    windows = sys.platform == "win32"
    library = ctypes.WinDLL("kernel32") if windows else ctypes.CDLL(None)  # type: ignore[attr-defined,unused-ignore]
    functions = {
        OTHERS: library.SwitchToThread if windows else library.sched_yield,
        SLEEP: library.Sleep if windows else library.usleep,
    }
    for name, function in functions.items():
        llvmlite.binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)


def _on_word(result: Any, n_values: int, emit: Callable[..., Any]) -> Any:
    """Make an operation(words, place, values...) on one word; what was written before it is seen by whom it tells."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(_WORDS)(context, builder, value=arguments[0])
        word = cgutils.get_item_pointer(context, builder, _WORDS, array, [arguments[1]], wraparound=False)
        return emit(builder, word, *arguments[2:])

    return result(_WORDS, *[types.int64] * (1 + n_values)), generate


def read(typing_context: Any, words: Any, place: Any) -> Any:
    """Load, in order with all other threads."""
    return _on_word(types.int64, 0, lambda builder, word: builder.load_atomic(word, "seq_cst", 8))


def add(typing_context: Any, words: Any, place: Any, value: Any) -> Any:
    """Add; no other thread gets between."""
    return _on_word(types.int64, 1, lambda builder, word, new: builder.atomic_rmw("add", word, new, "seq_cst"))


def swap(typing_context: Any, words: Any, place: Any, value: Any) -> Any:
    """Exchange; no other thread gets between."""
    return _on_word(types.int64, 1, lambda builder, word, new: builder.atomic_rmw("xchg", word, new, "seq_cst"))


def change(typing_context: Any, words: Any, place: Any, old: Any, new: Any) -> Any:
    """Compare and exchange."""

    def emit(builder: Any, word: Any, before: Any, after: Any) -> Any:
        return builder.extract_value(builder.cmpxchg(word, before, after, "seq_cst", "seq_cst"), 1)

    return _on_word(types.boolean, 2, emit)


def words_at(typing_context: Any, address: Any, n: Any) -> Any:
    """Make an array that owns nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, size = context.make_array(_WORDS)(context, builder), ir.Constant(_INT, 8)
        populate_array(
            array, data=builder.inttoptr(arguments[0], _INT.as_pointer()), itemsize=size, meminfo=None,
            shape=cgutils.pack_array(builder, [arguments[1]]), strides=cgutils.pack_array(builder, [size]),
        )  # fmt: skip
        return array._getvalue()

    return _WORDS(types.int64, types.int64), generate


def pause(typing_context: Any) -> Any:
    """Use the machine's instruction for loops that wait."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        machine = builder.module.triple.split("-")[0].lower()
        if machine in PAUSES:
            name, numbers = PAUSES[machine]
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)] * len(numbers))
            builder.call(
                cgutils.get_or_insert_function(builder.module, kind, name),
                [ir.Constant(ir.IntType(32), number) for number in numbers],
            )
        return context.get_dummy_value()

    return types.void(), generate


def fetch_ahead(typing_context: Any, table: Any, row: Any) -> Any:
    """Call LLVM's intrinsic: to be read (0), and again (3), as data (1)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, value=arguments[0])
        step = cgutils.unpack_tuple(builder, array.strides)[0]
        place = builder.gep(builder.bitcast(array.data, _BYTES), [builder.mul(arguments[1], step)])
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, *[ir.IntType(32)] * 3])
        function = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind)
        builder.call(function, [place, *(ir.Constant(ir.IntType(32), number) for number in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(table, row), generate


def _add_vector(width: int, sums: Any, to: Any, values: Any, of: Any) -> Any:
    """Load, add and store vectors of int32."""
    vector = ir.VectorType(ir.IntType(32), width)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = []
        for number in (0, 2):
            array = context.make_array(signature.args[number])(context, builder, value=arguments[number])
            place = builder.gep(array.data, [arguments[number + 1]])
            places.append(builder.bitcast(place, vector.as_pointer()))
        total = builder.add(*(builder.load(place, align=4) for place in places))
        builder.store(total, places[0], align=4)
        return context.get_dummy_value()

    return types.void(sums, to, values, of), generate


def add_four(typing_context: Any, sums: Any, to: Any, values: Any, of: Any) -> Any:
    """Add 128 bits."""
    return _add_vector(4, sums, to, values, of)


def add_eight(typing_context: Any, sums: Any, to: Any, values: Any, of: Any) -> Any:
    """Add 256 bits."""
    return _add_vector(8, sums, to, values, of)


def add_sixteen(typing_context: Any, sums: Any, to: Any, values: Any, of: Any) -> Any:
    """Add 512 bits."""
    return _add_vector(16, sums, to, values, of)


def _system_call(name: str, kinds: list[Any]) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = ir.FunctionType(ir.IntType(32), [ir.IntType(32)] * len(kinds))
        return builder.call(cgutils.get_or_insert_function(builder.module, function, name), arguments)

    return types.int32(*kinds), generate


def let_others_run(typing_context: Any) -> Any:
    """Call the system."""
    return _system_call(OTHERS, [])


def sleep(typing_context: Any, time: Any) -> Any:
    """Call the system."""
    return _system_call(SLEEP, [types.uint32])


def _write_job(context: Any, builder: Any, room: Any, kinds: tuple[Any, ...], items: list[Any]) -> Any:
    """Write a function beside the kernel, which takes the kernel's arguments after t from where they are put here.

    room   the address of int64 (ROOM,)
    kinds  types of the arguments; items: their values

    Returns the address of the function.
    """
    module, kernel = builder.module, builder.function
    record = ir.LiteralStructType([item.type for item in items])  # item by item: of a whole one LLVM is slow
    if context.get_abi_sizeof(record) > 8 * (ROOM - 2):
        raise RuntimeError(f"the arguments of a kernel take {context.get_abi_sizeof(record)} bytes")
    data = builder.bitcast(builder.gep(room, [ir.Constant(_INT, 2)]), record.as_pointer())
    for i, item in enumerate(items):
        builder.store(item, cgutils.gep_inbounds(builder, data, 0, i))
    function = ir.Function(module, _JOB, module.get_unique_name("hornbeam_job"))
    function.linkage = "internal"
    body = ir.IRBuilder(function.append_basic_block())
    data = body.bitcast(function.args[0], record.as_pointer())
    loaded = [body.load(cgutils.gep_inbounds(body, data, 0, i)) for i in range(len(items))]
    given = [function.args[1], *loaded]
    status, _ = context.call_conv.call_function(body, kernel, types.none, (types.int64, *kinds), given)
    body.ret(body.zext(status.is_error, _INT))
    return builder.ptrtoint(function, _INT)


def _room_of(context: Any, builder: Any, room: Any) -> Any:
    """Return the address of a room, and that of the data in it as a number."""
    words = context.make_array(_WORDS)(context, builder, room).data
    return words, builder.ptrtoint(builder.gep(words, [ir.Constant(_INT, 2)]), _INT)


def own_job(typing_context: Any, crew: Any, arguments: Any) -> Any:
    """Write a function, and the addresses as a pair."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        items = [values[0], *cgutils.unpack_tuple(builder, values[1])]
        room, data = _room_of(context, builder, builder.extract_value(items[0], 2))
        function = _write_job(context, builder, room, (signature.args[0], *signature.args[1]), items)
        return context.make_tuple(builder, signature.return_type, [function, data])

    return types.UniTuple(types.int64, 2)(crew, arguments), generate


def own_operation(typing_context: Any, room: Any, arguments: Any) -> Any:
    """Write a function, and the addresses into the room."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        items = [values[0], *cgutils.unpack_tuple(builder, values[1])]
        words, data = _room_of(context, builder, items[0])
        function = _write_job(context, builder, words, (signature.args[0], *signature.args[1]), items)
        builder.store(function, words)
        builder.store(data, builder.gep(words, [ir.Constant(_INT, 1)]))
        return context.get_dummy_value()

    return types.void(room, arguments), generate


def call_job(typing_context: Any, function: Any, data: Any, t: Any) -> Any:
    """Call a function by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        job = builder.inttoptr(arguments[0], _JOB.as_pointer())
        return builder.call(job, [builder.inttoptr(arguments[1], _BYTES), arguments[2]])

    return types.int64(types.int64, types.int64, types.int64), generate


def float_from_bits(typing_context: Any, bits: Any) -> Any:
    """Keep the bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


def bits_from_float(typing_context: Any, value: Any) -> Any:
    """Keep the bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _INT)

    return types.int64(types.float64), generate
