"""How a tree grows, in plain Python that names no device: splits, frontier, nodes, the protocol of an engine."""
