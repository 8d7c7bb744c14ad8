"""The GPU backend: one kernel source (kernels/), two thin runtimes (cuda.py, opencl.py), one engine."""
