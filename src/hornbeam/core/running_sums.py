"""Running sums of floats in one order, which devices can follow in parallel.

Values are cut into blocks of 64. Within a block they are added one after the other; the totals of the blocks before are
running sums by the same rule, and are added to each value of the block last. So threads take a block each, level by
level, and a sum has the same bits however many there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Values of a block."""


def running_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each value and all before it, float64 (n,).

    values  float64 (n,)  in
    """
    n = len(values)
    blocks = np.zeros((max(1, -(-n // BLOCK)), BLOCK))
    blocks.reshape(-1)[:n] = values
    within = np.add.accumulate(blocks, axis=1)
    if len(blocks) > 1:
        within[1:] = running_sums(within[:, -1])[:-1, None] + within[1:]
    return within.reshape(-1)[:n]
