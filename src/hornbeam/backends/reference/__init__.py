"""The definition of every operation, in NumPy alone."""
