"""Growing trees on ranks: every distinct value of a feature of numbers has a bin of its own."""
