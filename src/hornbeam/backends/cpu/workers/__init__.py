"""Kernels of trees that grow on several workers: see distributed/."""
