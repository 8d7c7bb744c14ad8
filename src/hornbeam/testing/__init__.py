"""Shipped for tests and benchmarks, ours and yours: data makers and the peers' equivalent parameters."""
