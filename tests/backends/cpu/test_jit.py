"""Kernels that Numba compiles: inner ones stay unfinished, and nothing of a user's own functions changes."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from hornbeam.backends.cpu.host import jit, unfinished  # noqa: E402
from hornbeam.backends.cpu.host.kernels import INNER, OPTIONS, Kernel, instruction  # noqa: E402


def square(x):
    return x * x


square.__module__ = "hornbeam.of_tests"
inner_square = Kernel(square, INNER, is_cached=False)


def add_squares(values):
    total = 0.0
    for value in values:
        total += inner_square(value)
    return total


def broken(x):
    return x.no_such_attribute


broken.__module__ = "hornbeam.of_tests"
inner_broken = Kernel(broken, INNER, is_cached=False)


def call_broken(x):
    return inner_broken(x)


def library_of(dispatcher):
    return next(iter(dispatcher.overloads.values())).library


@pytest.mark.skipif(not jit.INNER_UNFINISHED, reason="this Numba compiles as it does")
def test_an_inner_kernel_is_compiled_as_part_of_another_alone():
    outer = Kernel(add_squares, OPTIONS, is_cached=False)
    assert outer(np.array([1.0, 2.0, 3.0])) == 14.0
    assert isinstance(library_of(inner_square.dispatcher), unfinished._Unfinished)
    assert not isinstance(library_of(outer.dispatcher), unfinished._Unfinished)


def test_functions_of_users_are_finished_and_may_call_kernels():
    own = numba.njit(lambda x: inner_square(x) + 1.0)
    assert own(3.0) == 10.0
    assert not isinstance(library_of(own), unfinished._Unfinished)


def test_an_inner_kernel_that_cannot_be_compiled_leaves_the_next_ones_whole():
    with pytest.raises(numba.TypingError, match="no_such_attribute"):
        Kernel(call_broken, OPTIONS, is_cached=False)(1.0)
    own = numba.njit(lambda x: x + 1)
    assert own(1) == 2
    assert not isinstance(library_of(own), unfinished._Unfinished)


def double(x):
    return 2 * x


def twice(x):
    return double_kernel(x)


def call_twice(x):
    return inner_twice(x)


double_kernel = Kernel(double, OPTIONS, is_cached=False)
twice.__module__ = "hornbeam.of_tests"
inner_twice = Kernel(twice, INNER, is_cached=False)


def test_a_kernel_that_comes_from_the_cache_for_an_inner_one_is_finished(monkeypatch, tmp_path):
    """Else a call of it from Python would jump to nowhere."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit.CompilationNotice, "helpers", [])
    saved = numba.njit(**OPTIONS)(double)
    saved._cache = jit.KernelCache(double)
    assert saved(4) == 8
    dispatcher = double_kernel.dispatcher
    dispatcher._cache = jit.KernelCache(double)
    assert Kernel(call_twice, OPTIONS, is_cached=False)(3) == 6
    assert sum(dispatcher.stats.cache_hits.values()) == 1
    assert not isinstance(library_of(dispatcher), unfinished._Unfinished)
    assert double_kernel(5) == 10


def test_an_instruction_runs_in_compiled_code_alone():
    from hornbeam.backends.cpu.host.atomics import read

    with pytest.raises(NotImplementedError, match="compiled kernels alone"):
        read(np.zeros(1, np.int64), 0)


def test_instructions_that_come_later_are_told_to_numba(monkeypatch):
    def nothing_much(typing_context):
        return numba.types.void(), lambda context, builder, signature, arguments: context.get_dummy_value()

    monkeypatch.setattr(jit.instructions, "nothing_much", nothing_much, raising=False)

    def stub() -> None:
        raise NotImplementedError

    stub.__name__ = "nothing_much"
    instruction(stub)

    def use() -> int:
        stub()
        return 5

    assert numba.njit(use)() == 5


def makes_an_array(n):
    made = np.zeros(n)
    for i in range(n):
        made[i] = i
    return made[n - 1]


def part_of(values):
    return values[1:]


def test_kernels_say_that_they_make_arrays():
    """The others count none, and Numba refuses them what they would never release."""
    for function, argument in ((makes_an_array, 3), (part_of, np.arange(3.0))):
        with pytest.raises((numba.core.errors.NumbaError, TypeError), match=r"NRT|Only accept returning of array"):
            Kernel(function, OPTIONS, is_cached=False).dispatcher(argument)
    counted = Kernel(makes_an_array, {**OPTIONS, "_nrt": True}, is_cached=False)
    assert counted.dispatcher(3) == 2.0
