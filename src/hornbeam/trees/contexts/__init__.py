"""What the split search is told of a node besides its sums: constraints, prices, forced splits, chosen features."""
