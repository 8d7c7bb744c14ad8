"""From the kernels' Python source to LLVM's code, by Numba: every kernel of the list of signatures, not yet optimised.

An entry of the library is a function of two places: the words of the arguments, as support.c writes them, and the words
of the results. Numba is used as it is but for its last step: what it would optimise for this CPU and load into this
process is linked into one module instead, which emit.py optimises for each level. That step is not part of Numba's
public face, so a build asks for one version of it (pyproject.toml).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import llvmlite.ir as ir
from emit import SYMBOLS
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.registry import cpu_target
from numba.np import numpy_support
from numba.np.arrayobj import populate_array

from hornbeam.backends.cpu.host.signatures import examples, item_name, kinds_of
from hornbeam.backends.cpu.host.warming import all_kernels, kernel_named

WORD = ir.IntType(64)


class _RawLibrary(JITCodeLibrary):
    """Code of one function that stays as Numba wrote it, apart from the code of what it calls.

    code     LLVM's modules
    callees  the libraries of what is called
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.code: list[Any] = []

    @property
    def callees(self) -> list[_RawLibrary]:
        callees: list[_RawLibrary] = self._linking_libraries
        return callees

    def add_ir_module(self, ir_module: Any) -> None:
        module = llvm.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
        module.data_layout = self._codegen._data_layout
        self.code.append(module)

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 1  # it is never called here


class _RawCodegen(JITCPUCodegen):
    """Makes such code, and loads none of it."""

    _library_class = _RawLibrary

    def _add_module(self, module: Any) -> None:
        pass

    def set_env(self, env_name: str, env: Any) -> None:
        pass


class _Words:
    """The words of arguments or results, one after the other, in a function that is being written."""

    def __init__(self, context: Any, builder: Any, base: Any) -> None:
        self.context, self.builder, self.base, self.n = context, builder, base, 0

    def place(self) -> Any:
        self.n += 1
        return self.builder.gep(self.base, [ir.Constant(WORD, self.n - 1)])

    def next(self) -> Any:
        return self.builder.load(self.place())

    def read(self, kind: Any) -> Any:
        """Take a value of a type from the words."""
        context, builder = self.context, self.builder
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder)
            data = builder.inttoptr(self.next(), array.data.type)
            shape = [self.next() for _ in range(kind.ndim)]
            strides = [self.next() for _ in range(kind.ndim)]
            populate_array(
                array,
                data=data,
                shape=cgutils.pack_array(builder, shape, WORD),
                strides=cgutils.pack_array(builder, strides, WORD),
                itemsize=ir.Constant(WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype))),
                meminfo=None,
                parent=None,
            )
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [self.read(item) for item in kind])
        if isinstance(kind, types.NoneType):
            return context.get_dummy_value()
        word = self.next()
        if isinstance(kind, types.Boolean):
            return builder.trunc(word, ir.IntType(1))
        if isinstance(kind, types.Integer):
            return word if kind.bitwidth == 64 else builder.trunc(word, ir.IntType(kind.bitwidth))
        if isinstance(kind, types.Float):
            real = builder.bitcast(word, ir.DoubleType())
            return real if kind.bitwidth == 64 else builder.fptrunc(real, ir.FloatType())
        raise TypeError(f"a kernel takes {kind}")

    def write(self, kind: Any, value: Any) -> None:
        """Put a value of a type into the words; an array with the place of its memory, which the caller releases."""
        context, builder = self.context, self.builder
        if isinstance(kind, types.NoneType):
            return
        if isinstance(kind, types.BaseTuple):
            for i, item in enumerate(kind):
                self.write(item, builder.extract_value(value, i))
            return
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            builder.store(builder.ptrtoint(array.data, WORD), self.place())
            for number in (*cgutils.unpack_tuple(builder, array.shape), *cgutils.unpack_tuple(builder, array.strides)):
                builder.store(number, self.place())
            builder.store(builder.ptrtoint(array.meminfo, WORD), self.place())
            return
        if isinstance(kind, types.Float):
            value = builder.bitcast(value if kind.bitwidth == 64 else builder.fpext(value, ir.DoubleType()), WORD)
        elif isinstance(kind, (types.Integer, types.Boolean)) and value.type.width < 64:
            is_signed = isinstance(kind, types.Integer) and kind.signed
            value = (builder.sext if is_signed else builder.zext)(value, WORD)
        elif not isinstance(kind, types.Integer):
            raise TypeError(f"a kernel returns {kind}")
        builder.store(value, self.place())


def _name_of(kind: Any) -> str:
    """Return the name of a result's type, as signatures.py writes it."""
    if isinstance(kind, types.NoneType):
        return "None"
    if isinstance(kind, types.BaseTuple):
        cls = getattr(kind, "instance_class", None)
        name = "" if cls is None else f"{cls.__module__.removeprefix('hornbeam.backends.cpu.')}:{cls.__qualname__}"
        return f"{name}({','.join(map(_name_of, kind))})"
    dtype = numpy_support.as_dtype(kind.dtype if isinstance(kind, types.Array) else kind)
    item = item_name(dtype)
    return f"{item}[{kind.ndim}{kind.layout}]" if isinstance(kind, types.Array) else item


class Exported(NamedTuple):
    """Kernels as LLVM's code.

    bitcode  all of them, with what they call; only the entries are seen from outside
    results  type of the result of each entry, by kernel and signature
    """

    bitcode: bytes
    results: dict[tuple[str, str], str]


def symbol_of(name: str, signature: str) -> str:
    """Return the name of an entry in the library."""
    return SYMBOLS + blake2b(f"{name} {signature}".encode(), digest_size=8).hexdigest()


def _code_of(libraries: list[_RawLibrary]) -> Iterator[Any]:
    """Return LLVM's modules of libraries and of all that they call, each once."""
    waiting, seen = list(libraries), set[int]()
    while waiting:
        library = waiting.pop()
        if id(library) in seen:
            continue
        seen.add(id(library))
        waiting += library.callees
        for module in library.code:
            for function in module.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "weak_odr"  # what is made for each caller anew is there twice
            yield module


def _linked(modules: list[Any]) -> Any:
    """Return one module of all, neighbours joined first: LLVM looks through what it links into as a whole."""
    while len(modules) > 1:
        for module, other in zip(modules[::2], modules[1::2], strict=False):
            module.link_in(other)
        modules = modules[::2]
    return modules[0]


def export(entries: Iterable[tuple[str, str]], say: Any) -> Exported:
    """Compile entries, given by kernel and signature."""
    for kernel in all_kernels():
        kernel.is_cached = False
    context = cpu_target.target_context
    context._internal_codegen = _RawCodegen("hornbeam")
    context.create_cpython_wrapper = lambda *_, **__: None  # an entry is not called by Python: a tenth of the work
    wrapper = context.codegen()._create_empty_module("hornbeam_kernels")
    libraries, symbols, results_of = [], set(), {}
    for name, signature in entries:
        start = time.process_time()
        kernel = kernel_named(name)
        arguments = tuple(kernel.dispatcher.typeof_pyval(value) for value in examples(kinds_of(signature)))
        kernel.dispatcher.compile(arguments)
        compiled = kernel.dispatcher.overloads[arguments]
        result = compiled.signature.return_type
        symbols.add(symbol := symbol_of(name, signature))
        function = ir.Function(wrapper, ir.FunctionType(ir.IntType(32), [WORD.as_pointer()] * 2), symbol)
        builder = ir.IRBuilder(function.append_basic_block())
        words, results = (_Words(context, builder, base) for base in function.args)
        status, value = context.call_conv.call_function(
            builder, context.declare_function(wrapper, compiled.fndesc), result, arguments,
            [words.read(kind) for kind in arguments],
        )  # fmt: skip
        with builder.if_then(status.is_ok):
            results.write(result, value)
        builder.ret(status.code)
        results_of[name, signature] = _name_of(result)
        libraries.append(compiled.library)
        say(f"{time.process_time() - start:5.1f} s  {name}  {signature[:80]}")
    module = _linked([llvm.parse_assembly(cgutils.normalize_ir_text(str(wrapper))), *_code_of(libraries)])
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in symbols:
            value.linkage = "internal"
    return Exported(bytes(module.as_bitcode()), results_of)
