"""From LLVM's code to an object file for one level of CPUs: optimised as Numba does it, and looked through.

What would change bits is refused: a multiplication and an addition that are fused into one instruction round once
instead of twice, and functions of the platform's mathematical library differ from one to the next.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

import llvmlite.binding as llvm

FUSED = re.compile(r"^\s+(v?fn?m(?:add|sub)\w*|fml[as]\w*)\s", re.MULTILINE)
"""Instructions that multiply and add in one step: vfmadd213pd and its like, fmadd, fmla."""

SYMBOLS = "hornbeam_kernel_"
"""What the names of entries begin with."""

ALLOWED = {
    "memcpy", "memmove", "memset", "bzero", "sqrt", "hornbeam_let_others_run", "hornbeam_sleep", "NRT_MemInfo_alloc",
    "NRT_MemInfo_alloc_aligned", "NRT_MemInfo_alloc_safe_aligned", "NRT_MemInfo_call_dtor",
    "NRT_Allocate", "NRT_Free", "numba_attempt_nocopy_reshape",
}  # fmt: skip
"""What kernels may call: support.c has it, the C library, or (sqrt) the CPU, and each rounds as IEEE 754 says."""


class Level(NamedTuple):
    """Which CPUs code is made for, and which kernels.

    name      as library.py orders them
    modules   beginnings of the kernels' names; a level has the others from the one below
    """

    name: str
    cpu: str
    features: str
    modules: tuple[str, ...] = ("",)


QUICKER_BY_AVX2 = (
    "binning.dense.", "growth.dense.shared_", "growth.dense.tree.search_in_tree", "growth.splits.shared.",
    "losses.evaluation.", "losses.gradients.", "losses.pointwise.", "losses.ranking.",
)  # fmt: skip
"""Modules of kernels that AVX2 makes quicker, by 7 to 47 percent (benchmarks/levels.py); most others take as long,
and those of the exact method longer."""

LEVELS = {
    "x86_64": [Level("x86-64-v2", "x86-64-v2", ""), Level("x86-64-v3", "x86-64-v3", "-fma,-fma4", QUICKER_BY_AVX2)],
    "aarch64": [Level("aarch64", "generic", "")],
}
LEVELS |= {"amd64": LEVELS["x86_64"], "arm64": LEVELS["aarch64"]}


def emit(part: bytes, symbols: set[str], level: Level, is_looked_through: bool = False) -> bytes:
    """Return the object file of a module for a level; raises where it holds what would change bits.

    symbols            names of the entries that are wanted: the module may hold others
    is_looked_through  whether the library will be disassembled, which tells the same as the assembly
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=level.cpu, features=level.features, opt=3, reloc="pic", codemodel="default"
    )
    module = llvm.parse_bitcode(part)
    module.triple = machine.triple
    for function in module.functions:
        if function.name.startswith(SYMBOLS) and function.name not in symbols:
            function.linkage = "internal"
        if not function.is_declaration:
            function.add_function_attribute("nounwind")  # a kernel's failure is a status: no tables for exceptions
    _leave_out_unused(module, machine)
    module.data_layout = str(machine.target_data)
    if sys.platform == "win32":
        for function in module.functions:
            if function.name.startswith(SYMBOLS):
                function.storage_class = "dllexport"
    _optimise(module, machine, speed=0)
    _optimise(module, machine, speed=3)
    module.verify()
    fused = [] if is_looked_through else sorted(set(FUSED.findall(machine.emit_assembly(module))))
    if fused:
        raise SystemExit(f"{level.name}: instructions that multiply and add at once: {', '.join(fused)}")
    foreign = sorted(
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.") and function.name not in ALLOWED
    )
    if foreign:
        raise SystemExit(f"{level.name}: kernels call what the library has not: {', '.join(foreign)}")
    return bytes(machine.emit_object(module))


def _leave_out_unused(module: Any, machine: Any) -> None:
    """Remove what no entry calls, before time is spent on it."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


def _optimise(module: Any, machine: Any, speed: int) -> None:
    """Do one of Numba's two rounds: a cheap one, after which uses of arrays are counted less, and a thorough one."""
    options = llvm.create_pipeline_tuning_options(speed_level=speed)
    options.loop_vectorization = speed > 0
    options.slp_vectorization = False
    options.loop_unrolling = speed > 0
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    if speed == 0:
        passes.add_loop_rotate_pass()
        passes.add_instruction_combine_pass()
        passes.add_jump_threading_pass()
    passes.add_refprune_pass()
    passes.run(module, builder)
