"""Kinds of tables, each with the reader that knows it."""
