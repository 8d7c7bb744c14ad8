"""Prediction on the CPU."""
