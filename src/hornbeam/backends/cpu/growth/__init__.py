"""Trees on the CPU: rows, histograms, splits, partition, leaves."""
