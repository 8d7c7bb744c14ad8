"""Tables that are larger than memory: read in order, batch by batch, and kept as bins in a file."""
