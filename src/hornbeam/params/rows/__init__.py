"""The rows of the parameter table, by subject; table.py puts them together."""
