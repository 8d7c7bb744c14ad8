"""Devices: which there are, the engines that train on them, and prediction."""
