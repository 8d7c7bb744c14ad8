"""Training parameters: the table of names, the checked object made of it, and what peers call things."""

from __future__ import annotations

from hornbeam.params.params import Params

__all__ = ["Params"]
