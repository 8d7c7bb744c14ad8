"""The CPU backend: kernels compiled when Hornbeam is built, or by Numba at first use and cached on disk."""
