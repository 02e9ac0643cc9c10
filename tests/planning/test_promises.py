"""The interval of a promise covers what as many other images show, about as often as it says."""

import numpy as np
import pytest
from planted import COST
from scipy.special import expit, logit

from poolsieve.planning import Target, search
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


@pytest.mark.parametrize("within", [0.01, 0.05])
def test_promises_cover_other_images(within):
    covered = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        plan = search(some_images(rng), PREVALENCE, Target(within=within), (8,), COST).best
        promised = plan.sensitivity, plan.specificity, plan.cost
        seen = measured(plan, some_images(rng))
        covered.append([p.low <= value <= p.high for p, value in zip(promised, seen, strict=True)])
    shares = np.mean(covered, axis=0)
    assert (shares >= 0.9).all(), shares
    assert (shares <= 0.999).all(), shares  # intervals that hold everything promise nothing
