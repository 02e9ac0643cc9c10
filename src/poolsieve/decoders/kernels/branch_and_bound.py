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

Numbers that start as constants are written `np.int64(0)`, and image numbers are int64 throughout: numba would
else compile a callee for every constant and width that it is called with, which made up a quarter of the
time of the first run.
"""

import numpy as np

from poolsieve.compiled import compiled
from poolsieve.decoders.kernels.dual_bound import diffuse, lower_bound, min_marginals

INFINITY = 1e300
SLACK = 1e-9
"""Solutions within this of each other count as equally good."""
STEP_SLACK = 1e-6
"""Rounding allowed for when bounds are compared with the lattice of objective values."""
ROOT_SWEEPS = 30
NODE_SWEEPS = 1


@compiled
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


@compiled
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


@compiled
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


@compiled
def _component(start, label, component, status, pools, pools_of, members, own_pools, pool_label):
    """Free images connected to `start` through pools, and those pools; returns both counts."""
    member_count = 1
    own_count = 0
    members[0] = start
    component[start] = label
    head = 0
    while head < member_count:
        j = members[head]
        head += 1
        for u in range(pools_of.shape[1]):
            q = pools_of[j, u]
            if q < 0:
                break
            if pool_label[q] == label:
                continue
            pool_label[q] = label
            own_pools[own_count] = q
            own_count += 1
            for place in range(pools.shape[1]):
                i = pools[q, place]
                if i < 0:
                    break
                if status[i] < 0 and component[i] < 0:
                    component[i] = label
                    members[member_count] = i
                    member_count += 1
    return member_count, own_count


@compiled
def _greedy(
    members,
    member_count,
    own_pools,
    own_count,
    status,
    ones,
    free,
    pools_of,
    cost,
    weight,
    trail,
    depth,
    best,
):
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


@compiled
def _solve_component(
    members, member_count, own_pools, own_count, status, ones, free, pools, pools_of, places_of, cost, weight,
    share, buffer, gain, trail, best, branch_image, branch_value, branch_tried, branch_depth, fixes, step,
    node_budget,
):  # fmt: skip
    """Best values of one component's images into `best`; returns nodes used and whether that is proven."""
    depth = np.int64(0)
    least_gain = max(SLACK, step - STEP_SLACK)  # what a better solution gains at least
    best_value = _greedy(
        members,
        member_count,
        own_pools,
        own_count,
        status,
        ones,
        free,
        pools_of,
        cost,
        weight,
        trail,
        depth,
        best,
    )
    nodes = 0
    level = 0
    while True:
        nodes += 1
        if nodes > node_budget:
            _undo(np.int64(0), status, ones, free, pools_of, trail, depth)
            return nodes, False
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
                    buffer, gain,
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
                branch_image[level] = branch
                branch_value[level] = first_value
                branch_tried[level] = 1
                branch_depth[level] = depth
                level += 1
                depth = _assign(branch, first_value, status, ones, free, pools_of, trail, depth)
                continue
        # back to the deepest branch with a value not yet tried
        while level > 0:
            depth = _undo(branch_depth[level - 1], status, ones, free, pools_of, trail, depth)
            if branch_tried[level - 1] == 1:
                branch_tried[level - 1] = 2
                other = 1 - branch_value[level - 1]
                depth = _assign(branch_image[level - 1], other, status, ones, free, pools_of, trail, depth)
                break
            level -= 1
        if level == 0:
            _undo(np.int64(0), status, ones, free, pools_of, trail, depth)
            return nodes, True


@compiled
def _solve_chunk(cost, weight, pools, pools_of, places_of, pool_sizes, step, node_limit, x):
    """Solve one chunk into `x`; returns the objective and whether it is proven least."""
    pool_count, width = pools.shape
    images = pools_of.shape[0]
    status = np.full(images, -1, dtype=np.int8)
    ones = np.zeros(pool_count, dtype=np.int32)
    free = pool_sizes.astype(np.int32)
    trail = np.empty(images + 1, dtype=np.int64)
    everyone = np.arange(images)
    _fix_dominated(everyone, images, status, ones, free, pools_of, cost, weight, trail, np.int64(0))
    proven = True
    nodes_left = node_limit
    component = np.full(images, -1, dtype=np.int32)
    pool_label = np.full(pool_count, -1, dtype=np.int32)
    members = np.empty(images, dtype=np.int64)
    own_pools = np.empty(pool_count, dtype=np.int32)
    best = np.zeros(images, dtype=np.int64)
    branch_image = np.empty(images + 1, dtype=np.int64)
    branch_value = np.empty(images + 1, dtype=np.int64)
    branch_tried = np.empty(images + 1, dtype=np.int8)
    branch_depth = np.empty(images + 1, dtype=np.int64)
    fixes = np.empty(images, dtype=np.int64)
    share = np.zeros((pool_count, width))
    buffer = np.empty(width + 1)
    gain = np.empty(pools_of.shape[1])
    label = np.int64(0)
    for start in range(images):
        if status[start] >= 0:
            continue
        member_count, own_count = _component(
            start, label, component, status, pools, pools_of, members, own_pools, pool_label
        )
        label += 1
        for a in range(member_count):
            j = members[a]
            pools_here = 0
            while pools_here < pools_of.shape[1] and pools_of[j, pools_here] >= 0:
                pools_here += 1
            for u in range(pools_here):
                share[pools_of[j, u], places_of[j, u]] = weight[j] / pools_here
        used, component_proven = _solve_component(
            members, member_count, own_pools, own_count, status, ones, free, pools, pools_of, places_of, cost,
            weight, share, buffer, gain, trail, best, branch_image, branch_value, branch_tried, branch_depth,
            fixes, step, nodes_left,
        )  # fmt: skip
        nodes_left = max(nodes_left - used, 0)
        proven = proven and component_proven
        for a in range(member_count):
            j = members[a]
            _assign(j, best[j], status, ones, free, pools_of, trail, np.int64(0))
    objective = 0.0
    for q in range(pool_count):
        objective += cost[q, ones[q]]
    for j in range(images):
        x[j] = status[j] == 1
        objective += weight[j] * status[j]
    return objective, proven


@compiled
def _nothing_pays(reading, penalty, pools_of):
    """Whether no flag can lower ‖y − Φx‖² + λ·Σx, as in most chunks at low prevalence."""
    for j in range(pools_of.shape[0]):
        change = penalty
        for u in range(pools_of.shape[1]):
            q = pools_of[j, u]
            if q < 0:
                break
            change += 1 - 2 * reading[q]
        if change < 0:
            return False
    return True


@compiled
def least_squares(readings, penalty, pools, pools_of, places_of, pool_sizes, step, node_limit):
    """MIP: minimise ‖y − Φx‖² + λ·Σx over binary x for every row y of `readings`.

    Any two objective values must differ by a multiple of `step`; 0 if nothing is known.

    Returns:
        x (chunks, n), the objective (chunks,), and whether it is proven least (chunks,).
    """
    chunks, pool_count = readings.shape
    images = pools_of.shape[0]
    x = np.empty((chunks, images), dtype=np.bool_)
    objective = np.empty(chunks)
    proven = np.empty(chunks, dtype=np.bool_)
    cost = np.empty((pool_count, pools.shape[1] + 1))
    weight = np.full(images, penalty)
    for chunk in range(chunks):
        if _nothing_pays(readings[chunk], penalty, pools_of):
            for j in range(images):
                x[chunk, j] = False
            objective[chunk] = 0.0
            for q in range(pool_count):
                objective[chunk] += readings[chunk, q] ** 2
            proven[chunk] = True
            continue
        for q in range(pool_count):
            for k in range(cost.shape[1]):
                cost[q, k] = (readings[chunk, q] - k) ** 2
        objective[chunk], proven[chunk] = _solve_chunk(
            cost, weight, pools, pools_of, places_of, pool_sizes, step, node_limit, x[chunk]
        )
    return x, objective, proven


@compiled
def least_cost(costs, weights, pools, pools_of, places_of, pool_sizes, node_limit):
    """MAP: minimise Σ_q costs[q, (Φx)_q] + Σ_j weights_j·x_j over binary x for every chunk.

    `costs` (chunks, m, r + 1) are finite; `weights` (chunks, n), the cost of each flag, may be negative.

    Returns:
        x (chunks, n), the objective (chunks,), and whether it is proven least (chunks,).
    """
    chunks = costs.shape[0]
    images = pools_of.shape[0]
    x = np.empty((chunks, images), dtype=np.bool_)
    objective = np.empty(chunks)
    proven = np.empty(chunks, dtype=np.bool_)
    for chunk in range(chunks):
        objective[chunk], proven[chunk] = _solve_chunk(
            costs[chunk], weights[chunk], pools, pools_of, places_of, pool_sizes, 0.0, node_limit, x[chunk]
        )
    return x, objective, proven
