import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import planted_plans

from poolsieve.distributed.segment_plans import LEAST_BEHIND, SegmentPlans, told_before
from poolsieve.planning.plan_controller import PlanController
from poolsieve.schemes import PrevalenceEstimator


def state_at(share, images=200):
    """What a segment tells that holds that share of bad images, each known for sure."""
    bad = np.arange(images) < round(share * images)
    estimator = PrevalenceEstimator()
    estimator.add(np.where(bad[:, None], [-20.0, 0.0], [0.0, -20.0]), np.ones(images, dtype=int))
    return {
        "likelihood": [round(float(value), 6) for value in estimator.log_likelihood],
        "groups": estimator.groups,
        "meter": {"images": images},
    }


def segment_plans():
    return SegmentPlans(PlanController(planted_plans(), (4, 8), None), chunks=2)


def test_a_segment_waits_for_few_others_and_the_later_it_is_the_more_go_at_once():
    assert [told_before(s) for s in (0, 1, 16, 17, 40, 128, 800)] == [0, 1, 1, 2, 25, 113, 701]
    assert all(told_before(s) <= told_before(s + 1) <= s + 1 for s in range(5_000))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_plans_depend_on_neither_order_nor_number_of_workers(seed, workers):
    rng = np.random.default_rng(seed)
    shares = [0.0] * 20 + [0.3] * 20 + [0.01] * 20
    states = [state_at(share) for share in shares]
    one = segment_plans()
    expected = []
    for segment, state in enumerate(states):
        expected.append(one.plan_of(segment))
        one.learn(segment, state)
    many, got, working, following = segment_plans(), [], [], 0
    while len(got) < len(shares) or working:
        if following < len(shares) and len(working) < workers and many.ready(following):
            got.append(many.plan_of(following))
            working.append(following)
            following += 1
        else:
            segment = working.pop(int(rng.integers(len(working))))
            many.learn(segment, states[segment])
    assert got == expected
    assert [str(s) for s in many.controller.switches] == [str(s) for s in one.controller.switches]
    assert expected[0] != expected[1]  # the pilot chooses
    assert len(set(expected[20 + LEAST_BEHIND : 40])) == 1
    assert expected[39] > expected[19]


def test_a_run_with_a_given_scheme_waits_for_nothing():
    plans = SegmentPlans(None, 10)
    assert plans.ready(99)
    assert plans.plan_of(99) is None


def test_segments_without_a_readable_image_tell_nothing():
    plans = segment_plans()
    first = plans.plan_of(0)
    plans.learn(0, {**state_at(0), "groups": 0, "likelihood": [0.0] * len(state_at(0)["likelihood"])})
    assert plans.plan_of(1) == first


def test_a_segment_is_not_ready_before_those_that_it_follows():
    plans = segment_plans()
    assert plans.plan_of(0) is not None
    assert not plans.ready(1)
    with pytest.raises(KeyError):
        plans.plan_of(1)
