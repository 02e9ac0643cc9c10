"""Compiled loops of the constructions.

They draw from an integer generator of their own (splitmix64), so that a seed gives the same design on every
machine and with every version of numba.
"""

from __future__ import annotations

import numpy as np

from poolsieve.compiled import compiled, compiled_within

EMPTY = -1
_BITS_PER_CYCLE = 6
"""A switch that adds d cycles is taken with probability 2^(−6d): enough to leave a local minimum."""
_PARTNERS = 20
"""Partners looked at for one bad edge before the best of them is taken."""


@compiled_within
def _draw(state):
    """Next 64 random bits; `state` is an array of one uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled_within
def _draw_below(state, bound):
    """Random integer in 0..bound−1, for bounds below 2^32."""
    return np.int64(((_draw(state) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


# ---- quasi-cyclic


@compiled_within
def _claim(used, i, shift, shifts, column, weight, size):
    """Mark the differences that `shift` in block (i, column) makes; undo and say False on a repetition."""
    block_rows = used.shape[0]
    total = block_rows * weight
    for step in range(total):
        other, w = step // weight, step % weight
        fits = True
        if shifts[other, column, w] != EMPTY:
            d = (shift - shifts[other, column, w]) % size
            opposite = (size - d) % size
            fits = not used[i, other, d] and not (other == i and d == opposite)
            if fits:
                used[i, other, d] = True
                used[other, i, opposite] = True
        if not fits:
            for back in range(step):
                before, b = back // weight, back % weight
                if shifts[before, column, b] != EMPTY:
                    d = (shift - shifts[before, column, b]) % size
                    used[i, before, d] = False
                    used[before, i, (size - d) % size] = False
            return False
    return True


@compiled
def draw_shifts(state, shifts, used, candidates):
    """Random shifts of a grid of circulants, so that no difference of two block rows comes twice.

    Args:
        state: A seed.  # (1,) uint64
        shifts: Written to; EMPTY at first.  # (block_rows, block_columns, weight)
        used: Differences of two block rows; False at first.  # (block_rows, block_rows, size)
        candidates: 0..size−1 in any order; shuffled.  # (size,)

    Returns:
        Whether it worked.
    """
    block_rows, block_columns, weight = shifts.shape
    size = candidates.shape[0]
    for column in range(block_columns):
        for w in range(weight):
            for i in range(block_rows):
                found = False
                for k in range(size):  # a shuffle, carried only as far as it is needed
                    other = k + _draw_below(state, size - k)
                    shift = candidates[other]
                    candidates[other] = candidates[k]
                    candidates[k] = shift
                    if _claim(used, i, shift, shifts, column, weight, size):
                        shifts[i, column, w] = shift
                        found = True
                        break
                if not found:
                    return False
    return True


# ---- edge switching
#
# A slot is a place in a pool: pools[q, p] is an image j, and pools_of[j, ranks[q, p]] == q.


@compiled_within
def _allowed(pools, pools_of, x, p, y, q):
    """Whether slots (x, p) and (y, q) may trade their images without an image coming twice to a pool."""
    j, k = pools[x, p], pools[y, q]
    if x == y or j == k:
        return False
    for u in range(pools_of.shape[1]):  # noqa: SIM110 — numba compiles no generator here
        if pools_of[j, u] == y or pools_of[k, u] == x:
            return False
    return True


@compiled_within
def _place(pools, pools_of, ranks, x, p, image, rank):
    pools[x, p] = image
    ranks[x, p] = rank
    pools_of[image, rank] = x


@compiled_within
def _trade(pools, pools_of, ranks, x, p, y, q):
    j, u, k, v = pools[x, p], ranks[x, p], pools[y, q], ranks[y, q]
    _place(pools, pools_of, ranks, x, p, k, v)
    _place(pools, pools_of, ranks, y, q, j, u)


@compiled_within
def _cycles(pools, pools_of, marks, x, p):
    """Number of 2×2 blocks of ones that the entry at slot (x, p) is part of."""
    j = pools[x, p]
    c = pools_of.shape[1]
    for u in range(c):
        b = pools_of[j, u]
        if b != EMPTY and b != x:
            marks[b] = 1
    total = 0
    for place in range(pools.shape[1]):
        k = pools[x, place]
        if place == p or k == EMPTY:
            continue
        for u in range(c):
            b = pools_of[k, u]
            if b != EMPTY:
                total += marks[b]
    for u in range(c):
        b = pools_of[j, u]
        if b != EMPTY:
            marks[b] = 0
    return total


@compiled_within
def _try_trade(pools, pools_of, ranks, marks, x, p, y, q):
    """Trade, and say by how many 2×2 blocks the matrix changed."""
    j, u, k, v = pools[x, p], ranks[x, p], pools[y, q], ranks[y, q]
    change = -_cycles(pools, pools_of, marks, x, p)
    pools[x, p] = EMPTY
    pools_of[j, u] = EMPTY
    change -= _cycles(pools, pools_of, marks, y, q)
    pools[y, q] = EMPTY
    pools_of[k, v] = EMPTY
    _place(pools, pools_of, ranks, x, p, k, v)
    change += _cycles(pools, pools_of, marks, x, p)
    _place(pools, pools_of, ranks, y, q, j, u)
    change += _cycles(pools, pools_of, marks, y, q)
    return change


@compiled
def mix(pools, pools_of, ranks, trades, seed):
    """Make `trades` random trades (those that are not allowed do nothing), in place."""
    state = np.array([seed], dtype=np.uint64)
    m, r = pools.shape
    for _ in range(trades):
        e, f = _draw_below(state, m * r), _draw_below(state, m * r)
        if _allowed(pools, pools_of, e // r, e % r, f // r, f % r):
            _trade(pools, pools_of, ranks, e // r, e % r, f // r, f % r)


@compiled
def remove_blocks(pools, pools_of, ranks, budget, seed):
    """Trade images, in place, until no 2×2 block of ones is left or `budget` trades were weighed.

    Needs memory for the edges only: blocks are counted from the index arrays.

    Returns:
        Whether no block is left.
    """
    state = np.array([seed], dtype=np.uint64)
    m, r = pools.shape
    slots = m * r
    marks = np.zeros(m, dtype=np.int64)
    # Every block has an entry among the suspects: the one that was placed last.
    suspects = np.empty(slots, dtype=np.int64)
    suspected = np.zeros(slots, dtype=np.bool_)
    count = 0
    for e in range(slots):
        if _cycles(pools, pools_of, marks, e // r, e % r) > 0:
            suspects[count] = e
            suspected[e] = True
            count += 1
    while count > 0:
        index = _draw_below(state, count)
        e = suspects[index]
        x, p = e // r, e % r
        if _cycles(pools, pools_of, marks, x, p) == 0:
            count -= 1
            suspects[index] = suspects[count]
            suspected[e] = False
            continue
        best, best_change = EMPTY, 1 << 40
        for _ in range(_PARTNERS):
            if budget <= 0:
                return False
            budget -= 1
            f = _draw_below(state, slots)
            y, q = f // r, f % r
            if not _allowed(pools, pools_of, x, p, y, q):
                continue
            change = _try_trade(pools, pools_of, ranks, marks, x, p, y, q)
            _trade(pools, pools_of, ranks, x, p, y, q)
            if change < best_change:
                best, best_change = f, change
            if change < 0:
                break
        if best == EMPTY:
            continue
        if best_change > 0:
            bits = min(best_change * _BITS_PER_CYCLE, 63)
            if _draw(state) >> np.uint64(64 - bits) != 0:
                continue
        _trade(pools, pools_of, ranks, x, p, best // r, best % r)
        for slot in (e, best):
            if not suspected[slot]:
                suspects[count] = slot
                suspected[slot] = True
                count += 1
    return True


# ---- two sets with equal counts
#
# Images are added to one set or the other until every pool holds as many of both. A pool that holds more of
# one must get an image of the other, so only the images of one such pool have to be tried at each step.


@compiled_within
def _add(residual, excess, pools_of, image, sign):
    """Add an image to the first (+1) or the second (−1) set, or take it away by the opposite sign."""
    for u in range(pools_of.shape[1]):
        q = pools_of[image, u]
        if q == EMPTY:
            break
        before = residual[q]
        after = before + sign
        residual[q] = after
        excess[0] += max(after, 0) - max(before, 0)
        excess[1] += max(-after, 0) - max(-before, 0)


@compiled_within
def _unequal_pool(residual, pools_of, chosen, depth):
    """A pool that holds more of one set than of the other."""
    for d in range(depth + 1):
        for u in range(pools_of.shape[1]):
            q = pools_of[chosen[d], u]
            if q == EMPTY:
                break
            if residual[q] != 0:
                return q
    return EMPTY


@compiled
def equal_counts(pools, pools_of, pool_count, most, steps, chosen, signs):
    """Look for two sets of up to `most` images each that no pool tells apart.

    Args:
        pools: Images of each pool, EMPTY behind them.  # (m, r)
        pools_of: Pools of each image, EMPTY behind them.  # (n, c)
        pool_count: m.
        most: Largest set k.
        steps: Images that may be tried.
        chosen: Written to: the images of both sets.  # (2·most,)
        signs: Written to: +1 for the first set, −1 for the second.  # (2·most,)

    Returns:
        Images in both sets together, 0 if there are no such sets; whether larger sets are left to look at
        (1, or 0); steps that are left, −1 if they did not suffice.
    """
    images, weight = pools_of.shape
    size = pools.shape[1]
    residual = np.zeros(pool_count, dtype=np.int64)
    excess = np.zeros(2, dtype=np.int64)  # places in which the first set is ahead, and the second
    where = np.zeros(2 * most, dtype=np.int64)
    place = np.zeros(2 * most, dtype=np.int64)
    held = np.zeros(2, dtype=np.int64)  # images of each set
    cut = 0
    for first in range(images):  # the smallest image of both sets; the sets may be exchanged
        chosen[0], signs[0] = first, 1
        held[0], held[1] = 1, 0
        _add(residual, excess, pools_of, first, 1)
        depth = 0
        fresh = True
        while depth >= 0:
            if fresh:
                where[depth] = _unequal_pool(residual, pools_of, chosen, depth)
                if where[depth] == EMPTY:
                    return depth + 1, 1, steps
                place[depth] = 0
                fresh = False
                # Each further image makes good at most `weight` places, and every set has its end.
                if excess[0] > weight * (most - held[1]) or excess[1] > weight * (most - held[0]):
                    cut = 1
                    place[depth] = size
            sign = -1 if residual[where[depth]] > 0 else 1
            if place[depth] < size:
                image = pools[where[depth], place[depth]]
                place[depth] += 1
                if image == EMPTY:
                    place[depth] = size
                    continue
                if image <= first:
                    continue
                used = False
                for d in range(depth + 1):
                    used = used or chosen[d] == image
                if used:
                    continue
                steps -= 1
                if steps < 0:
                    return 0, 1, steps
                depth += 1
                chosen[depth], signs[depth] = image, sign
                held[0 if sign > 0 else 1] += 1
                _add(residual, excess, pools_of, image, sign)
                fresh = True
            else:
                _add(residual, excess, pools_of, chosen[depth], -signs[depth])
                held[0 if signs[depth] > 0 else 1] -= 1
                depth -= 1
    return 0, cut, steps
