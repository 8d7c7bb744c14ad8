"""Gradients and metrics on the CPU."""
