"""Images laid out in a grid, with its rows and columns as pools."""

from __future__ import annotations

import numpy as np

from poolsieve.designs.feasibility import whole
from poolsieve.designs.pooling import Pooling, PoolingDesign


def grid_design(rows: int, columns: int) -> Pooling:
    """One pool for each row and one for each column of a grid of rows × columns images.

    Guarantees: every image in two pools, any two pools share at most one image. Rows hold as many images as
    there are columns and the other way round, so all pools are equal, and the result is a `PoolingDesign`,
    exactly if the grid is square. The design is 1-disjunct if both sides are at least 2.
    """
    rows, columns = whole("rows", rows), whole("columns", columns)
    grid = np.arange(rows * columns).reshape(rows, columns)
    kind = PoolingDesign if rows == columns else Pooling
    return kind([*grid, *grid.T], rows * columns)
