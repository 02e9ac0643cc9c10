"""Exact minimisation of Σ_q cost[q, (Φx)_q] + Σ_j weight_j·x_j over binary x, by branch and bound.

The costs of a pool may be any function of its count, so one search serves MIP (squared differences) and MAP
(negative log-likelihoods). What keeps the tree small:

- dominance: an image whose flag cannot pay in any completion is 0; one whose flag pays in every one is 1;
- components: images that share no undecided pool are solved apart;
- a dual bound: each image's weight is split among its pools, each pool is then minimised on its own (exactly,
  by sorting), and the split is improved by max-sum diffusion (block coordinate ascent on the dual);
- reduced costs: an image whose other value would lift the bound above the best known solution is fixed;
- step: where all objective values lie on a lattice, a solution that is better at all is better by a step, so
  any bound that leaves less than a step to gain is as good as the best solution itself.

Everything is deterministic; among equally good solutions the first in search order is kept.

Arrays of the search state, all indexed as in `Pooling`: `status` −1 free, 0, 1 for each image; `ones` and
`free` images of each pool; `share[q, place]` of an image's weight that pool q carries; `trail` the images
assigned so far, in order.

The first run waits until numba has compiled all this, so a few things keep that short. Scratch is made
outside: numba compiles numpy's constructors anew for every type and caller. Whole numbers are int64
throughout, and those that start as constants are written `np.int64(0)`: it would else compile a callee for
every width and constant that it is called with. Both decoders share one kernel, because callees are
optimised again in each.
"""

import numpy as np

from poolsieve.compiled import compiled, compiled_within
from poolsieve.decoders.kernels.dual_bound import diffuse, lower_bound, min_marginals

INFINITY = 1e300
SLACK = 1e-9
"""Solutions within this of each other count as equally good."""
STEP_SLACK = 1e-6
"""Rounding allowed for when bounds are compared with the lattice of objective values."""
NO_LIMIT = 2**62
ROOT_SWEEPS = 30
NODE_SWEEPS = 1


@compiled_within
def _assign(j, value, status, ones, free, pools_of, trail, depth):
    status[j] = value
    for u in range(pools_of.shape[1]):
        q = pools_of[j, u]
        if q < 0:
            break
        free[q] -= 1
        ones[q] += value
    trail[depth] = j
    return depth + 1


@compiled_within
def _undo(target, status, ones, free, pools_of, trail, depth):
    """Take assignments back until only `target` of them stand."""
    while depth > target:
        depth -= 1
        j = trail[depth]
        for u in range(pools_of.shape[1]):
            q = pools_of[j, u]
            if q < 0:
                break
            free[q] += 1
            ones[q] -= status[j]
        status[j] = -1
    return depth


@compiled_within
def _fix_dominated(members, member_count, status, ones, free, pools_of, cost, weight, trail, depth):
    """Fix images whose flag never pays, or always does, whatever the other free images become."""
    changed = True
    while changed:
        changed = False
        for a in range(member_count):
            j = members[a]
            if status[j] >= 0:
                continue
            least = weight[j]
            most = weight[j]
            for u in range(pools_of.shape[1]):
                q = pools_of[j, u]
                if q < 0:
                    break
                low = INFINITY
                high = -INFINITY
                for k in range(ones[q], ones[q] + free[q]):
                    step = cost[q, k + 1] - cost[q, k]
                    low = min(low, step)
                    high = max(high, step)
                least += low
                most += high
            if least >= -1e-12:
                depth = _assign(j, np.int64(0), status, ones, free, pools_of, trail, depth)
                changed = True
            elif most <= 1e-12:
                depth = _assign(j, np.int64(1), status, ones, free, pools_of, trail, depth)
                changed = True
    return depth


@compiled_within
def _component(start, best, joined, status, pools, pools_of, members, own_pools):
    """Free images connected to `start` through pools, and those pools; returns both counts.

    `best` of an image and `joined` of a pool are −1 until they are found.
    """
    member_count = 1
    own_count = 0
    members[0] = start
    best[start] = 0
    head = 0
    while head < member_count:
        j = members[head]
        head += 1
        for u in range(pools_of.shape[1]):
            q = pools_of[j, u]
            if q < 0:
                break
            if joined[q] >= 0:
                continue
            joined[q] = 0
            own_pools[own_count] = q
            own_count += 1
            for place in range(pools.shape[1]):
                i = pools[q, place]
                if i < 0:
                    break
                if status[i] < 0 and best[i] < 0:
                    best[i] = 0
                    members[member_count] = i
                    member_count += 1
    return member_count, own_count


@compiled_within
def _greedy(
    members, member_count, own_pools, own_count, status, ones, free, pools_of, cost, weight, trail, depth,
    best,
):  # fmt: skip
    """A first solution: flag the image that pays most while one pays. Restores the state it found."""
    mark = depth
    while True:
        chosen = np.int64(-1)
        chosen_change = -1e-12
        for a in range(member_count):
            j = members[a]
            if status[j] >= 0:
                continue
            change = weight[j]
            for u in range(pools_of.shape[1]):
                q = pools_of[j, u]
                if q < 0:
                    break
                change += cost[q, ones[q] + 1] - cost[q, ones[q]]
            if change < chosen_change:
                chosen_change = change
                chosen = j
        if chosen < 0:
            break
        depth = _assign(chosen, np.int64(1), status, ones, free, pools_of, trail, depth)
    value = 0.0
    for b in range(own_count):
        value += cost[own_pools[b], ones[own_pools[b]]]
    for a in range(member_count):
        j = members[a]
        best[j] = 1 if status[j] == 1 else 0
        value += weight[j] * best[j]
    _undo(mark, status, ones, free, pools_of, trail, depth)
    return value


@compiled_within
def _solve_component(
    members, member_count, own_pools, own_count, status, ones, free, pools, pools_of, places_of, cost, weight,
    share, buffer, trail, best, branch_value, branch_depth, fixes, step, node_budget,
):  # fmt: skip
    """Best values of one component's images into `best`; returns how much of the budget is left.

    −1 if it was not enough to prove them best. The branch at `level` set the image at `branch_depth[level]`
    of the trail to `branch_value[level]`, which is −1 once both values were tried.
    """
    depth = np.int64(0)
    least_gain = max(SLACK, step - STEP_SLACK)  # what a better solution gains at least
    best_value = _greedy(
        members, member_count, own_pools, own_count, status, ones, free, pools_of, cost, weight, trail, depth,
        best,
    )  # fmt: skip
    nodes = 0
    level = 0
    while True:
        nodes += 1
        if nodes > node_budget:
            _undo(np.int64(0), status, ones, free, pools_of, trail, depth)
            return -1
        sweeps = ROOT_SWEEPS if nodes == 1 else NODE_SWEEPS
        pruned = False
        branch = np.int64(-1)
        first_value = np.int64(0)
        while True:  # fix what can be fixed, until nothing more can
            depth = _fix_dominated(
                members, member_count, status, ones, free, pools_of, cost, weight, trail, depth
            )
            paid = 0.0
            free_count = 0
            for a in range(member_count):
                j = members[a]
                if status[j] == 1:
                    paid += weight[j]
                elif status[j] < 0:
                    free_count += 1
            bound = paid + lower_bound(own_pools, own_count, status, ones, pools, cost, share, buffer)
            for sweep in range(sweeps):
                if bound >= best_value - least_gain or free_count == 0:
                    break
                before = bound
                diffuse(
                    members, member_count, status, ones, pools, pools_of, places_of, cost, weight, share,
                    buffer,
                )  # fmt: skip
                bound = paid + lower_bound(own_pools, own_count, status, ones, pools, cost, share, buffer)
                if sweep > 0 and bound - before < 1e-4:
                    break
            if bound >= best_value - least_gain:
                pruned = True
                break
            if free_count == 0:
                break
            fix_count = 0
            branch_score = -1.0
            for a in range(member_count):
                j = members[a]
                if status[j] >= 0:
                    continue
                at_zero = bound
                at_one = bound
                for u in range(pools_of.shape[1]):
                    q = pools_of[j, u]
                    if q < 0:
                        break
                    without, within = min_marginals(q, j, status, ones, pools, cost, share, buffer)
                    within += share[q, places_of[j, u]]
                    least = min(without, within)
                    at_zero += without - least
                    at_one += within - least
                zero_hopeless = at_zero >= best_value - least_gain
                one_hopeless = at_one >= best_value - least_gain
                if zero_hopeless and one_hopeless:
                    pruned = True
                    break
                if zero_hopeless or one_hopeless:
                    fixes[fix_count] = j if zero_hopeless else -1 - j
                    fix_count += 1
                    continue
                rise_zero = at_zero - bound
                rise_one = at_one - bound
                score = 10.0 * min(rise_zero, rise_one) + max(rise_zero, rise_one)
                if score > branch_score:
                    branch_score = score
                    branch = j
                    first_value = np.int64(rise_one < rise_zero)
            if pruned or fix_count == 0:
                break
            for b in range(fix_count):  # all found under one state, so they hold together
                j = fixes[b] if fixes[b] >= 0 else -1 - fixes[b]
                value = np.int64(fixes[b] >= 0)
                depth = _assign(j, value, status, ones, free, pools_of, trail, depth)
            sweeps = 1
        if not pruned:
            if free_count == 0:
                best_value = bound
                for a in range(member_count):
                    best[members[a]] = status[members[a]]
            else:
                branch_value[level] = first_value
                branch_depth[level] = depth
                level += 1
                depth = _assign(branch, first_value, status, ones, free, pools_of, trail, depth)
                continue
        # back to the deepest branch with a value not yet tried
        while level > 0:
            depth = _undo(branch_depth[level - 1], status, ones, free, pools_of, trail, depth)
            if branch_value[level - 1] >= 0:
                other = 1 - branch_value[level - 1]
                branch_value[level - 1] = -1
                depth = _assign(trail[depth], other, status, ones, free, pools_of, trail, depth)
                break
            level -= 1
        if level == 0:
            _undo(np.int64(0), status, ones, free, pools_of, trail, depth)
            return node_budget - nodes


@compiled_within
def _nothing_pays(reading, weight, pools_of):
    """Whether no flag can lower ‖y − Φx‖² + Σ_j weight_j·x_j, as in most chunks at low prevalence."""
    for j in range(pools_of.shape[0]):
        change = weight[j]
        for u in range(pools_of.shape[1]):
            q = pools_of[j, u]
            if q < 0:
                break
            change += 1 - 2 * reading[q]
        if change < 0:
            return False
    return True


@compiled
def _minimise(
    readings, costs, weights, pools, pools_of, places_of, pool_sizes, step, node_limit, x, objective, proven,
    status, best, members, trail, branch_value, branch_depth, fixes, ones, free, joined, own_pools, share,
    buffer,
):  # fmt: skip
    """Solve every chunk into `x`, `objective` and `proven`; the arrays from `status` on are scratch.

    Where there are `readings`, the costs are squared differences from them: `costs` is then scratch for one
    chunk, and the one row of `weights` is that of all chunks.
    """
    images, width = pools_of.shape
    for chunk in range(x.shape[0]):
        row = chunk if readings.shape[0] == 0 else 0
        cost = costs[row]
        weight = weights[row]
        total = 0.0
        if readings.shape[0] > 0:
            reading = readings[chunk]
            if _nothing_pays(reading, weight, pools_of):
                for q in range(reading.shape[0]):
                    total += reading[q] * reading[q]
                for j in range(images):
                    x[chunk, j] = False
                objective[chunk] = total
                proven[chunk] = True
                continue
            for q in range(reading.shape[0]):
                for k in range(cost.shape[1]):
                    cost[q, k] = (reading[q] - k) * (reading[q] - k)
        for j in range(images):
            status[j] = -1
            best[j] = -1
            members[j] = j
        for q in range(pools.shape[0]):
            ones[q] = 0
            free[q] = pool_sizes[q]
            joined[q] = -1
        _fix_dominated(members, images, status, ones, free, pools_of, cost, weight, trail, np.int64(0))
        nodes_left = node_limit
        proven[chunk] = True
        for start in range(images):
            if status[start] >= 0:
                continue
            member_count, own_count = _component(
                start, best, joined, status, pools, pools_of, members, own_pools
            )
            for a in range(member_count):
                j = members[a]
                pools_here = 0
                while pools_here < width and pools_of[j, pools_here] >= 0:
                    pools_here += 1
                for u in range(pools_here):
                    share[pools_of[j, u], places_of[j, u]] = weight[j] / pools_here
            nodes_left = _solve_component(
                members, member_count, own_pools, own_count, status, ones, free, pools, pools_of, places_of,
                cost, weight, share, buffer, trail, best, branch_value, branch_depth, fixes, step, nodes_left,
            )  # fmt: skip
            if nodes_left < 0:
                proven[chunk] = False
                nodes_left = np.int64(0)
            for a in range(member_count):
                j = members[a]
                _assign(j, best[j], status, ones, free, pools_of, trail, np.int64(0))
        for q in range(pools.shape[0]):
            total += cost[q, ones[q]]
        for j in range(images):
            x[chunk, j] = status[j] == 1
            total += weight[j] * status[j]
        objective[chunk] = total


def _solve(readings, costs, weights, chunks, design, step, node_limit):
    """Make the results and the scratch, and solve; a `node_limit` of None is none."""
    pool_count, images = design.shape
    x = np.empty((chunks, images), dtype=np.bool_)
    objective = np.empty(chunks)
    proven = np.empty(chunks, dtype=np.bool_)
    _minimise(
        readings,
        costs,
        weights,
        design.pools.astype(np.int64),
        design.pools_of.astype(np.int64),
        design.places_of.astype(np.int64),
        design.pool_sizes.astype(np.int64),
        step,
        NO_LIMIT if node_limit is None else int(node_limit),
        x,
        objective,
        proven,
        *np.empty((7, images + 1), dtype=np.int64),
        *np.empty((4, pool_count), dtype=np.int64),
        np.empty((pool_count, design.pool_size)),
        np.empty(design.pool_size + 1),
    )
    return x, objective, proven


def least_squares(readings, penalty, design, step, node_limit):
    """MIP: minimise ‖y − Φx‖² + λ·Σx over binary x for every row y of `readings`.

    Any two objective values must differ by a multiple of `step`; 0 if nothing is known.

    Returns:
        x (chunks, n), the objective (chunks,), and whether it is proven least (chunks,).
    """
    scratch = np.empty((1, design.pool_count, design.pool_size + 1))
    weights = np.full((1, design.images), penalty)
    return _solve(readings, scratch, weights, len(readings), design, step, node_limit)


def least_cost(costs, weights, design, node_limit):
    """MAP: minimise Σ_q costs[q, (Φx)_q] + Σ_j weights_j·x_j over binary x for every chunk.

    `costs` (chunks, m, r + 1) are finite; `weights` (chunks, n), the cost of each flag, may be negative.

    Returns:
        x (chunks, n), the objective (chunks,), and whether it is proven least (chunks,).
    """
    none = np.empty((0, design.pool_count), dtype=np.int64)
    return _solve(none, costs, weights, len(costs), design, 0.0, node_limit)
