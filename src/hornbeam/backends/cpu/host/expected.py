"""What this process is about to train on, as far as it is known: helpers compile kernels for that (warming.py)."""

from __future__ import annotations


class Expected:
    """The largest table that has been binned.

    n_rows  of it; 0: none has been
    """

    n_rows: int = 0

    def see(self, n_rows: int) -> None:
        """Take a table into account."""
        self.n_rows = max(self.n_rows, n_rows)


expected = Expected()
