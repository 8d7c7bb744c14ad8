"""Split search on the CPU: the rules in numbers, the candidates of a feature, and the histograms they come from."""
