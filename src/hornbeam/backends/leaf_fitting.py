"""Linear leaves in host memory: compiled kernels, or NumPy alone for the reference."""

from __future__ import annotations

from hornbeam.trees.leaf_fitting import LeafArithmetic, NumpyLeaves


def leaves_on(host_device: str, n_threads: int) -> LeafArithmetic:
    """Return what linear leaves are computed with: "cpu" has kernels, "reference" NumPy."""
    if host_device == "reference":
        return NumpyLeaves()
    from hornbeam.backends.cpu.linear.fitting import CompiledLeaves

    return CompiledLeaves(n_threads)
