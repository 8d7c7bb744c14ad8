"""Rows of the growing tree on the CPU: where they are, which are in, what is rounded, and which leaf they reach."""
