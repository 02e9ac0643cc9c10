"""The compiled loop of merging pools."""

from __future__ import annotations

from poolsieve.compiled import compiled


@compiled
def merge_gated(features, gate, pools, merged):
    """Write the maximum over each pool's images of features times gate into `merged`.

    Args:
        features: Front features, locations in a row.  # (n, C, P) float32
        gate: Gates of the images.  # (n, P) float32
        pools: Image numbers, −1 where a place is empty; at least one per pool is not.  # (m, r)
        merged: Written to.  # (m, C, P) float32
    """
    locations = features.shape[2]
    for q in range(pools.shape[0]):
        first = True
        for place in range(pools.shape[1]):
            image = pools[q, place]
            if image < 0:
                continue
            opening = gate[image]
            for c in range(features.shape[1]):
                source, target = features[image, c], merged[q, c]
                if first:
                    for p in range(locations):
                        target[p] = source[p] * opening[p]
                else:
                    for p in range(locations):
                        value = source[p] * opening[p]
                        target[p] = value if value > target[p] else target[p]
            first = False
