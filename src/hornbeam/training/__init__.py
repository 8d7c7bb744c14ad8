"""`train` and `cv`: the boosting loop and what belongs to it."""
