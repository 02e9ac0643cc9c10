"""The interval of a promise covers what other images show, about as often as it says."""

import numpy as np
import pytest
from planted import COST
from scipy.special import expit, logit

from poolsieve.bundles import load_bundle
from poolsieve.bundles.recordings import Recordings
from poolsieve.planning import Target, search

PREVALENCE = 0.05


def some_images(rng, bad=300, clear=700, *, head=False):
    truth = np.arange(bad + clear) < bad
    sees = rng.normal(np.where(truth, 1.5, -1.5), 1)
    score = expit(2 * sees + rng.normal(np.where(truth, 2, -2), 1)).astype(np.float32)
    glance = (1.5 * sees + rng.normal(0, 1, len(truth))).astype(np.float32)
    other = (1.2 * sees + rng.normal(0, 1, len(truth))).astype(np.float32) if head else None
    return Recordings(truth, score, other, (), glance)


def measured(plan, images):
    """Sensitivity, specificity and cost of a plan (without that of a front), worked out by hand."""
    glance = plan.scheme == "glance"
    looks = images.heads if plan.scheme == "cascade" else images.glances
    asked = expit(looks + logit(PREVALENCE)) >= plan.parameters.get("clear_below", 0)
    flagged = asked & (images.scores > plan.parameters["threshold"])
    bad = images.bad
    backs = PREVALENCE * asked[bad].mean() + (1 - PREVALENCE) * asked[~bad].mean()
    return flagged[bad].mean(), 1 - flagged[~bad].mean(), glance * COST.glance / COST.whole + backs


@pytest.mark.parametrize(
    ("within", "others"),
    [(0.015, None), (0.05, None), (0.015, (40, 2000)), (0.015, (1200, 500))],
)
def test_promises_cover_other_images(within, others):
    bad, clear = others or (300, 700)
    covered = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        plan = search(
            some_images(rng), PREVALENCE, Target(within=within), (8,), COST, others, gated=True
        ).best
        promised = plan.sensitivity, plan.specificity, plan.cost
        seen = measured(plan, some_images(rng, bad, clear))
        covered.append([p.low <= value <= p.high for p, value in zip(promised, seen, strict=True)])
    shares = np.mean(covered, axis=0)
    print(others, shares)
    assert (shares >= 0.9).all(), shares
    assert (shares <= 0.999).all(), shares  # intervals that hold everything promise nothing


@pytest.fixture(scope="module")
def everybody():
    """So many images that what a plan loses on them is what it truly loses."""
    return some_images(np.random.default_rng(99), 100_000, 100_000, head=True)


@pytest.mark.parametrize(("bad", "within"), [(25, 0.2), (50, 0.125), (100, 0.05), (200, 0.03), (200, 0.125)])
def test_the_promised_loss_is_broken_in_at_most_five_of_a_hundred(bad, within, everybody):
    """Planned on few images, measured on very many others, against individual testing on the same ones."""
    flagged = everybody.scores > 0.5
    sensitivity, specificity = flagged[everybody.bad].mean(), 1 - flagged[~everybody.bad].mean()
    broken, cheaper = [], []
    target = Target(within=within, specificity_within=0.005)
    for seed in range(150):
        recordings = some_images(np.random.default_rng([bad, seed]), bad, 5 * bad, head=True)
        best = search(recordings, PREVALENCE, target, (8,), COST, gated=True).best
        found, spared, _ = measured(best, everybody)
        broken.append([sensitivity - found > within, specificity - spared > target.specificity_within])
        cheaper.append(best.scheme != "individual")
        assert measured(best, recordings)[1] >= 1 - (recordings.scores > 0.5)[~recordings.bad].mean() - 1e-9
    assert np.mean(cheaper) > 0.5  # a planner that never dares keeps every promise
    shares = np.mean(broken, axis=0)
    assert (shares <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(broken))).all(), shares


def test_sensitivity_that_is_gained_may_make_up_for_what_is_lost():
    """A lower threshold finds more; to be sure that it flags not one clear image more would cost more."""
    rng, bad = np.random.default_rng(1), np.arange(2100) < 700
    common = rng.normal(np.where(bad, 4, -4), 1.5)
    scores, glances = ((common + rng.normal(0, 2, len(bad))).astype(np.float32) for _ in range(2))
    recordings = Recordings(bad, expit(scores), None, (), glances)
    best, strict = (
        search(recordings, PREVALENCE, Target(specificity_within=margin), (8,), COST, gated=True).best
        for margin in (0.005, 0.0)
    )
    assert best.parameters["threshold"] < strict.parameters["threshold"] < 0.5
    assert best.cost.value < strict.cost.value - 0.01


def test_parts_of_the_shipped_recordings_break_the_promised_loss_in_at_most_five_of_a_hundred():
    """Real images: planned on some of the firearms bundle's, measured on all, which they stand for."""
    bundle = load_bundle("firearms")
    whole, price = bundle.recordings(), bundle.config.cost
    broken, cheaper = [], []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        few = (60, 120, 200)[seed % 3]
        within = (0.08, 0.04, 0.03)[seed % 3]
        mine = np.zeros(len(whole.bad), dtype=bool)
        mine[rng.permutation(np.flatnonzero(whole.bad))[:few]] = True
        mine[rng.permutation(np.flatnonzero(~whole.bad))[: 4 * few]] = True
        part = Recordings(whole.bad[mine], whole.scores[mine], whole.heads[mine], (), whole.glances[mine])
        best = search(part, PREVALENCE, Target(within=within), (8,), price, gated=True).best
        looks = {"glance": whole.glances, "cascade": whole.heads}.get(
            best.scheme, np.full(len(whole.bad), 99.0)
        )
        asked = expit(looks + logit(PREVALENCE)) >= best.parameters.get("clear_below", 0)
        flagged = asked & (whole.scores > best.parameters["threshold"])
        lost = (whole.scores > 0.5)[whole.bad].mean() - flagged[whole.bad].mean()
        broken.append(lost > within)
        cheaper.append(best.scheme != "individual")
    assert np.mean(cheaper) > 0.5
    assert np.mean(broken) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(broken)), np.mean(broken)


def test_fewer_images_are_promised_less_surely_at_the_same_plan():
    recordings = some_images(np.random.default_rng(1))
    few, many = (
        search(recordings, PREVALENCE, Target(), (8,), COST, n, gated=True).best
        for n in ((30, 70), (9e5, 9e5))
    )
    assert few.parameters == many.parameters
    for one, other in ((few.sensitivity, many.sensitivity), (few.cost, many.cost)):
        assert one.value == other.value
        assert one.low < other.low < other.high < one.high
