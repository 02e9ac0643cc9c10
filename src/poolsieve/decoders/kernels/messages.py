"""Belief propagation (sum-product) on the graph of images and pools."""

import math

import numpy as np

from poolsieve.compiled import compiled, compiled_within

LARGEST_MESSAGE = 40.0
"""Log-odds beyond this say no more: the probability of error is below 1e-17."""
SMALLEST = 1e-300


@compiled_within
def _pool_messages(size, likelihood, belief, before, after, message):
    """Log-odds that a pool sends to each of its images, given what the others believe.

    `before[a, k]` is the probability that k of the first a images are bad; `after[a, k]` is the likelihood of
    the reading if k of the first a are, summed over the rest. Both take O(r²), and so do all messages
    together.
    """
    before[0, 0] = 1.0
    for a in range(size):
        bad = belief[a]
        before[a + 1, 0] = before[a, 0] * (1.0 - bad)
        for k in range(1, a + 1):
            before[a + 1, k] = before[a, k] * (1.0 - bad) + before[a, k - 1] * bad
        before[a + 1, a + 1] = before[a, a] * bad
    for k in range(size + 1):
        after[size, k] = likelihood[k]
    for a in range(size - 1, -1, -1):
        bad = belief[a]
        for k in range(a + 1):
            after[a, k] = after[a + 1, k] * (1.0 - bad) + after[a + 1, k + 1] * bad
    for a in range(size):
        if_clear = SMALLEST
        if_bad = SMALLEST
        for k in range(a + 1):
            if_clear += before[a, k] * after[a + 1, k]
            if_bad += before[a, k] * after[a + 1, k + 1]
        message[a] = min(max(math.log(if_bad / if_clear), -LARGEST_MESSAGE), LARGEST_MESSAGE)


@compiled
def _propagate(
    likelihoods, prior_log_odds, pools, pools_of, places_of, pool_sizes, rounds, damping, tolerance,
    posterior, settled, belief, message, stale, touched, before, after, fresh,
):  # fmt: skip
    """Do as `propagate_beliefs` says, into `posterior` and `settled`; the arrays behind them are scratch."""
    pool_count = pools.shape[0]
    images, weight = pools_of.shape
    for chunk in range(posterior.shape[0]):
        for j in range(images):
            posterior[chunk, j] = prior_log_odds[chunk, j]
        for q in range(pool_count):
            stale[q] = True
            for a in range(pool_sizes[q]):
                belief[q, a] = 1.0 / (1.0 + math.exp(-prior_log_odds[chunk, pools[q, a]]))
                message[q, a] = 0.0
        settled[chunk] = False
        for turn in range(rounds):
            keep = damping if turn > 0 else 0.0
            visited = False
            for j in range(images):
                touched[j] = False
            for q in range(pool_count):
                if not stale[q]:
                    continue
                visited = True
                _pool_messages(pool_sizes[q], likelihoods[chunk, q], belief[q], before, after, fresh)
                unfinished = False
                for a in range(pool_sizes[q]):
                    # The undamped difference: a damped step is short however far there is to go.
                    if abs(fresh[a] - message[q, a]) > tolerance:
                        touched[pools[q, a]] = True
                        unfinished = True
                    message[q, a] = (1.0 - keep) * fresh[a] + keep * message[q, a]
                stale[q] = keep > 0.0 and unfinished
            if not visited:
                settled[chunk] = True
                break
            for j in range(images):
                if not touched[j]:
                    continue
                total = prior_log_odds[chunk, j]
                for u in range(weight):
                    q = pools_of[j, u]
                    if q < 0:
                        break
                    total += message[q, places_of[j, u]]
                for u in range(weight):
                    q = pools_of[j, u]
                    if q < 0:
                        break
                    a = places_of[j, u]
                    told = 1.0 / (1.0 + math.exp(message[q, a] - total))
                    if abs(told - belief[q, a]) > 0.01 * tolerance:
                        stale[q] = True
                    belief[q, a] = told
        for j in range(images):
            for u in range(weight):
                q = pools_of[j, u]
                if q < 0:
                    break
                posterior[chunk, j] += message[q, places_of[j, u]]


def propagate_beliefs(likelihoods, prior_log_odds, design, rounds, damping, tolerance):
    """Posterior log-odds of every image.

    A pool is visited again only while what its images tell it still changes, which leaves most pools of a
    chunk with few bad images alone after the first rounds. Damping starts with the second round.

    `likelihoods` (chunks, m, r + 1) are P(reading | count) up to a factor, at most 1; `prior_log_odds`
    (chunks, n) are finite.

    Returns:
        Log-odds (chunks, n) and whether the messages settled within `rounds` (chunks,).
    """
    chunks = len(likelihoods)
    (pool_count, images), width = design.shape, design.pool_size
    posterior = np.empty((chunks, images))
    settled = np.empty(chunks, dtype=np.bool_)
    _propagate(
        likelihoods,
        prior_log_odds,
        design.pools,
        design.pools_of,
        design.places_of,
        design.pool_sizes,
        rounds,
        damping,
        tolerance,
        posterior,
        settled,
        np.empty((pool_count, width)),
        np.empty((pool_count, width)),
        np.empty(pool_count, dtype=np.bool_),
        np.empty(images, dtype=np.bool_),
        np.empty((width + 1, width + 2)),
        np.empty((width + 2, width + 2)),
        np.empty(width),
    )
    return posterior, settled
