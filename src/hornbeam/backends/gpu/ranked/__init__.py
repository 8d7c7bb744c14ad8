"""Training on ranks on a GPU: every distinct value of a feature of numbers has a bin of its own."""
