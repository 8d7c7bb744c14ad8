"""Explanations on the CPU."""
