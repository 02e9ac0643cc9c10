"""Coordinate descent for the box-constrained Lasso."""

import numpy as np

from poolsieve.compiled import compiled

MAX_SWEEPS = 20_000
TOLERANCE = 1e-7
"""Largest change of an entry in a sweep at which the descent ends."""


@compiled
def constrained_lasso(readings, penalty, pools_of):
    """Minimise ‖y − Φx‖² + λ·Σx over 0 ≤ x ≤ 1 for every row y of `readings`.

    Screening: Φ and x have no negative entries, so a residual never exceeds its reading, and an image whose
    readings sum to at most λ/2 has a gradient that keeps it at 0 wherever the others are.

    Returns:
        x (chunks, n), the objective (chunks,), and whether the descent settled (chunks,).
    """
    chunks, pools = readings.shape
    images, width = pools_of.shape
    estimate = np.zeros((chunks, images))
    objective = np.empty(chunks)
    settled = np.empty(chunks, dtype=np.bool_)
    residual = np.empty(pools)
    weight = np.empty(images)
    for j in range(images):
        weight[j] = 0.0
        for u in range(width):
            if pools_of[j, u] >= 0:
                weight[j] += 1.0
    active = np.empty(images, dtype=np.int32)
    for chunk in range(chunks):
        x = estimate[chunk]
        residual[:] = readings[chunk]
        active_count = 0
        for j in range(images):
            reading_sum = 0.0
            for u in range(width):
                q = pools_of[j, u]
                if q < 0:
                    break
                reading_sum += residual[q]
            if 2.0 * reading_sum > penalty:
                active[active_count] = j
                active_count += 1
        settled[chunk] = False
        for _ in range(MAX_SWEEPS):
            largest = 0.0
            for a in range(active_count):
                j = active[a]
                slope = -0.5 * penalty
                for u in range(width):
                    q = pools_of[j, u]
                    if q < 0:
                        break
                    slope += residual[q]
                value = min(max(x[j] + slope / weight[j], 0.0), 1.0)
                change = value - x[j]
                if change != 0.0:
                    x[j] = value
                    for u in range(width):
                        q = pools_of[j, u]
                        if q < 0:
                            break
                        residual[q] -= change
                    largest = max(largest, abs(change))
            if largest < TOLERANCE:
                settled[chunk] = True
                break
        total = 0.0
        for q in range(pools):
            total += residual[q] * residual[q]
        for a in range(active_count):
            total += penalty * x[active[a]]
        objective[chunk] = total
    return estimate, objective, settled
