"""What Numba has no words for: atomic words, rest, and jobs that call the kernel they come from. LLVM's IR by hand.

Everything else about teams is written in Numba, in team.py. docs/dev/threads.md says what it is all for.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hornbeam.backends.cpu.host.kernels import borrow

ROOM = 1024
"""Words for a kernel's arguments."""

PAUSES = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "amd64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.isb", (15,)),
    "arm64": ("llvm.aarch64.isb", (15,)),
}
"""What a thread does between two looks, by machine: an intrinsic of LLVM and its arguments."""

_windows = sys.platform == "win32"
_library = ctypes.WinDLL("kernel32") if _windows else ctypes.CDLL(None)  # type: ignore[attr-defined,unused-ignore]
_functions = {
    "hornbeam_let_others_run": _library.SwitchToThread if _windows else _library.sched_yield,
    "hornbeam_sleep": _library.Sleep if _windows else _library.usleep,
}
for _name, _function in _functions.items():
    llvmlite.binding.add_symbol(_name, ctypes.cast(_function, ctypes.c_void_p).value)
let_others_run = types.ExternalFunction("hornbeam_let_others_run", types.int32())
sleep = types.ExternalFunction("hornbeam_sleep", types.int32(types.uint32))
A_MICROSECOND, A_MILLISECOND = (0, 1) if _windows else (1, 1000)
"""What to hand to sleep; Windows gives up the CPU for 0."""

_INT, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_JOB = ir.FunctionType(_INT, [_BYTES, _INT])
_WORDS = types.Array(types.int64, 1, "C")


def _word_operation(result: Any, n_values: int, emit: Callable[..., Any]) -> Any:
    """Make an operation(words, place, values...) on one word; what was written before it is seen by whom it tells."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(_WORDS)(context, builder, value=arguments[0])
        word = cgutils.get_item_pointer(context, builder, _WORDS, array, [arguments[1]], wraparound=False)
        return emit(builder, word, *arguments[2:])

    typed = result(_WORDS, *[types.int64] * (1 + n_values)), generate
    by_values = (
        lambda typing_context, words, place: typed,
        lambda typing_context, words, place, value: typed,
        lambda typing_context, words, place, old, new: typed,
    )
    return intrinsic(by_values[n_values])


read = _word_operation(types.int64, 0, lambda builder, word: builder.load_atomic(word, "seq_cst", 8))
"""Return a word."""

add = _word_operation(types.int64, 1, lambda builder, word, value: builder.atomic_rmw("add", word, value, "seq_cst"))
"""Add to a word and return what it was."""

swap = _word_operation(types.int64, 1, lambda builder, word, value: builder.atomic_rmw("xchg", word, value, "seq_cst"))
"""Write a word and return what it was."""

change = _word_operation(
    types.boolean, 2,
    lambda builder, word, old, new: builder.extract_value(builder.cmpxchg(word, old, new, "seq_cst", "seq_cst"), 1),
)  # fmt: skip
"""Write a word if it is `old`, and say whether it was."""


@intrinsic  # type: ignore[untyped-decorator]
def pause(typing_context):  # type: ignore[no-untyped-def]
    """Rest for some cycles."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        if platform.machine().lower() in PAUSES:
            name, numbers = PAUSES[platform.machine().lower()]
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)] * len(numbers))
            builder.call(
                cgutils.get_or_insert_function(builder.module, kind, name),
                [ir.Constant(ir.IntType(32), number) for number in numbers],
            )
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic  # type: ignore[untyped-decorator]
def own_job(typing_context, crew, arguments):  # type: ignore[no-untyped-def]
    """Return the addresses of a function(data, t) that calls the kernel in which this stands for thread t, and of data.

    crew, arguments  what the kernel takes after t: a team.Crew, whose room the data go to, and a tuple of all else
    """

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        module, kernel = builder.module, builder.function
        kinds = signature.args[0], *signature.args[1]
        items = [values[0], *cgutils.unpack_tuple(builder, values[1])]
        record = ir.LiteralStructType([item.type for item in items])  # item by item: of a whole one LLVM is slow
        if context.get_abi_sizeof(record) > 8 * ROOM:
            raise RuntimeError(f"the arguments of a team's kernel take {context.get_abi_sizeof(record)} bytes")
        room = context.make_array(_WORDS)(context, builder, builder.extract_value(items[0], 2)).data
        data = builder.bitcast(room, record.as_pointer())
        for i, item in enumerate(items):
            builder.store(item, cgutils.gep_inbounds(builder, data, 0, i))
        function = ir.Function(module, _JOB, module.get_unique_name("hornbeam_job"))
        function.linkage = "internal"
        body = ir.IRBuilder(function.append_basic_block())
        data = body.bitcast(function.args[0], record.as_pointer())
        loaded = [body.load(cgutils.gep_inbounds(body, data, 0, i)) for i in range(len(items))]
        borrowed = [borrow(body, kind, item) for kind, item in zip(kinds, loaded, strict=True)]
        status, _ = context.call_conv.call_function(
            body, kernel, types.none, (types.int64, *kinds), [function.args[1], *borrowed]
        )
        body.ret(body.zext(status.is_error, _INT))
        pair = [builder.ptrtoint(function, _INT), builder.ptrtoint(room, _INT)]
        return context.make_tuple(builder, signature.return_type, pair)

    return types.UniTuple(types.int64, 2)(crew, arguments), generate


@intrinsic  # type: ignore[untyped-decorator]
def call_job(typing_context, function, data, t):  # type: ignore[no-untyped-def]
    """Do the share of thread t of a job; returns 0, or 1 if that failed."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        function = builder.inttoptr(arguments[0], _JOB.as_pointer())
        return builder.call(function, [builder.inttoptr(arguments[1], _BYTES), arguments[2]])

    return types.int64(types.int64, types.int64, types.int64), generate
