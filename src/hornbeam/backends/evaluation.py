"""Metrics in host memory: compiled kernels, or NumPy alone for the reference."""

from __future__ import annotations

from hornbeam.metrics.arithmetic import NUMPY, Arithmetic


def arithmetic_on(host_device: str, n_threads: int) -> Arithmetic:
    """Return what metrics are computed with: "cpu" has kernels, "reference" NumPy."""
    if host_device == "reference":
        return NUMPY
    from hornbeam.backends.cpu.losses.arithmetic import CompiledArithmetic

    return CompiledArithmetic(n_threads)
