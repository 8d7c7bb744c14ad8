"""Tables in, bins out: readers of every kind of table, levels of categories, labels and weights, and the binning."""
