"""Threads and teams of threads."""
