"""The interval of a promise covers what other images show, about as often as it says."""

import numpy as np
import pytest
from planted import COST
from scipy.special import expit, logit
from scipy.stats import betabinom

from poolsieve.planning import Target, search
from poolsieve.planning.search import predicted_share
from poolsieve.recordings import Recordings

PREVALENCE = 0.05


def some_images(rng, bad=300, clear=700):
    truth = np.arange(bad + clear) < bad
    sees = rng.normal(np.where(truth, 1.5, -1.5), 1)
    score = expit(2 * sees + rng.normal(np.where(truth, 2, -2), 1)).astype(np.float32)
    glance = (1.5 * sees + rng.normal(0, 1, len(truth))).astype(np.float32)
    return Recordings(truth, score, None, (), glance)


def measured(plan, images):
    """Sensitivity, specificity and cost of a plan, worked out by hand."""
    glance = plan.scheme == "glance"
    asked = expit(images.glances + logit(PREVALENCE)) >= plan.parameters.get("clear_below", 0)
    flagged = asked & (images.scores > plan.parameters["threshold"])
    bad = images.bad
    backs = PREVALENCE * asked[bad].mean() + (1 - PREVALENCE) * asked[~bad].mean()
    return flagged[bad].mean(), 1 - flagged[~bad].mean(), glance * COST.glance / COST.whole + backs


@pytest.mark.parametrize(
    ("within", "others"),
    [(0.01, None), (0.05, None), (0.01, (40, 2000)), (0.01, (1200, 500))],
)
def test_promises_cover_other_images(within, others):
    bad, clear = others or (300, 700)
    covered = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        plan = search(some_images(rng), PREVALENCE, Target(within=within), (8,), COST, others).best
        promised = plan.sensitivity, plan.specificity, plan.cost
        seen = measured(plan, some_images(rng, bad, clear))
        covered.append([p.low <= value <= p.high for p, value in zip(promised, seen, strict=True)])
    shares = np.mean(covered, axis=0)
    print(others, shares)
    assert (shares >= 0.9).all(), shares
    assert (shares <= 0.999).all(), shares  # intervals that hold everything promise nothing


def test_fewer_images_are_promised_less_surely_at_the_same_plan():
    recordings = some_images(np.random.default_rng(1))
    few, many = (search(recordings, PREVALENCE, Target(), (8,), COST, n).best for n in ((30, 70), (9e5, 9e5)))
    assert few.parameters == many.parameters
    for one, other in ((few.sensitivity, many.sensitivity), (few.cost, many.cost)):
        assert one.value == other.value
        assert one.low < other.low < other.high < one.high


@pytest.mark.parametrize(
    ("good", "seen", "others"), [(0, 50, 30), (290, 300, 40), (300, 300, 1), (7, 9, 5000)]
)
def test_predicted_share_is_beta_binomial(good, seen, others):
    law = betabinom(others, good + 0.5, seen - good + 0.5)
    low, high = predicted_share(good, seen, others)
    assert (low * others, high * others) == pytest.approx((law.ppf(0.025), law.ppf(0.975)))
