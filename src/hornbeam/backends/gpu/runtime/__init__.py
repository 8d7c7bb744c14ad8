"""CUDA and OpenCL behind one face: devices, kernels, memory, sorting."""
