"""Explanations on a GPU."""
