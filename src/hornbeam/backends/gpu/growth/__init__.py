"""Trees on a GPU: histograms, splits, partition, leaves."""
