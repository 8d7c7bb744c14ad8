"""The device memory of one training: buffers, bins on their way there, kernels of its kind of data."""
