"""A lower bound on the cost of a chunk: every pool by itself, with its share of the images' weights.

The weight of each image is split among its pools. For any split, the sum of the pools' own minima is a lower
bound; max-sum diffusion (block coordinate ascent on the dual) improves the split image by image. A pool's
minimum is exact: for each count it takes the free images with the smallest shares. Arrays are those of
`branch_and_bound`.
"""

import numpy as np

from poolsieve.compiled import compiled_within


@compiled_within
def _sorted_shares(q, skip, status, pools, share, buffer):
    """Shares of pool q's free images but `skip`, ascending, into `buffer`; returns how many."""
    count = 0
    for place in range(pools.shape[1]):
        i = pools[q, place]
        if i < 0:
            break
        if i != skip and status[i] < 0:
            value = share[q, place]
            b = count
            while b > 0 and buffer[b - 1] > value:
                buffer[b] = buffer[b - 1]
                b -= 1
            buffer[b] = value
            count += 1
    return count


@compiled_within
def min_marginals(q, j, status, ones, pools, cost, share, buffer):
    """Least cost of pool q with image j at 0 and at 1, without j's own share."""
    count = _sorted_shares(q, j, status, pools, share, buffer)
    base = ones[q]
    without = cost[q, base]
    within = cost[q, base + 1]
    paid = 0.0
    for b in range(count):
        paid += buffer[b]
        without = min(without, cost[q, base + b + 1] + paid)
        within = min(within, cost[q, base + b + 2] + paid)
    return without, within


@compiled_within
def diffuse(members, member_count, status, ones, pools, pools_of, places_of, cost, weight, share, buffer):
    """One sweep: split each free image's weight so that all its pools want it equally."""
    for a in range(member_count):
        j = members[a]
        if status[j] >= 0:
            continue
        total = weight[j]
        width = 0
        for u in range(pools_of.shape[1]):
            q = pools_of[j, u]
            if q < 0:
                break
            without, within = min_marginals(q, j, status, ones, pools, cost, share, buffer)
            gain = within - without
            share[q, places_of[j, u]] = gain  # for now; no other pool looks at it
            total += gain
            width += 1
        for u in range(width):
            q = pools_of[j, u]
            share[q, places_of[j, u]] = total / width - share[q, places_of[j, u]]


@compiled_within
def lower_bound(own_pools, own_count, status, ones, pools, cost, share, buffer):
    """Sum of the pools' own minima: a count's cost plus the shares of the images that make it."""
    total = 0.0
    for a in range(own_count):
        q = own_pools[a]
        count = _sorted_shares(q, np.int64(-1), status, pools, share, buffer)
        base = ones[q]
        best = cost[q, base]
        paid = 0.0
        for b in range(count):
            paid += buffer[b]
            best = min(best, cost[q, base + b + 1] + paid)
        total += best
    return total
