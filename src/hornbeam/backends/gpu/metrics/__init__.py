"""Metrics on a GPU."""
