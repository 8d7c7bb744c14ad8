"""Bins and columns in the memory of a device."""
