"""Growth on dense data: row-major bins, and the same bins in columns."""
