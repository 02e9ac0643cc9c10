from planted import planted_bundle

from poolsieve.schemes import make_scheme
from poolsieve.serving.knees import WITHIN, expected_cost, find_knee


def test_the_knee_is_the_smallest_chunk_near_the_cost_of_a_full_one():
    config = planted_bundle().config
    scheme = make_scheme("adaptive", config.pool_sizes)
    knee = find_knee(scheme, config)
    full = expected_cost(scheme, config, scheme.chunk_size)
    assert 1 < knee < scheme.chunk_size
    assert expected_cost(scheme, config, knee) <= WITHIN * full < expected_cost(scheme, config, knee // 2)


def test_without_pools_there_is_nothing_to_wait_for():
    config = planted_bundle().config
    for name in ("individual", "cascade", "glance"):
        assert find_knee(make_scheme(name, config.pool_sizes), config) == 1
