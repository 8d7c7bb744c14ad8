"""Binning of dense and sparse tables on the CPU."""
