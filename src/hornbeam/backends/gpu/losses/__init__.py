"""Gradients on a GPU, and their rounding."""
