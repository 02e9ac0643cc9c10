"""Greedy peeling of counts."""

import numpy as np

from poolsieve.compiled import compiled


@compiled
def peel_counts(readings, margin, pools_of):
    """Flag the image whose pools hold most, take it out of them, repeat while it explains enough.

    Returns:
        Scores (chunks, n) and flags (chunks, n); see `GreedyCounts`.
    """
    chunks, pools = readings.shape
    images, width = pools_of.shape
    flags = np.zeros((chunks, images), dtype=np.bool_)
    scores = np.zeros((chunks, images))
    residual = np.empty(pools, dtype=np.int64)
    for chunk in range(chunks):
        residual[:] = readings[chunk]
        while True:
            chosen = -1
            chosen_sum = 0
            chosen_least = 0
            for j in range(images):
                if flags[chunk, j]:
                    continue
                held = 0
                least = 1 << 30
                weight = 0
                for u in range(width):
                    q = pools_of[j, u]
                    if q < 0:
                        break
                    held += residual[q]
                    least = min(least, residual[q])
                    weight += 1
                if weight == 0 or held <= 0.5 * weight + margin:
                    continue
                if chosen < 0 or held > chosen_sum or (held == chosen_sum and least > chosen_least):
                    chosen = j
                    chosen_sum = held
                    chosen_least = least
            if chosen < 0:
                break
            flags[chunk, chosen] = True
            for u in range(width):
                q = pools_of[chosen, u]
                if q < 0:
                    break
                residual[q] -= 1
        for j in range(images):
            if flags[chunk, j]:
                scores[chunk, j] = 1.0
                continue
            held = 0
            weight = 0
            for u in range(width):
                q = pools_of[j, u]
                if q < 0:
                    break
                held += max(residual[q], 0)
                weight += 1
            if weight > 0:
                scores[chunk, j] = min(held / weight, 1.0)
    return scores, flags
