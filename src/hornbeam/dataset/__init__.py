"""`Dataset`: what users hold of their data."""

from __future__ import annotations

from hornbeam.dataset.dataset import Dataset

__all__ = ["Dataset"]
