"""Every method of an evaluation on networks whose answers are planted."""

from dataclasses import replace

import numpy as np
import pytest
from planted import COST, ROC, flat_scaling

from poolsieve.calibration import Calibration, CountingCalibration
from poolsieve.engines import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.evaluation.competitors import (
    COMPETITORS,
    EQUAL,
    choose_competitors,
    detection_product,
    list_competitors,
)
from poolsieve.evaluation.context import EvaluationContext
from poolsieve.evaluation.detection_measures import ImageCounts
from poolsieve.evaluation.mixtures import draw_mixture
from poolsieve.export.recording import record_readings
from poolsieve.schemes import LikelihoodModel, make_scheme

LABELS = np.array([1] * 60 + [0] * 300)
F, GATE = COST.front / COST.whole, COST.gate / COST.whole


class PlantedRecords:
    """Networks on numbers of images; `answers` is what the individual network believes of each."""

    def __init__(self, labels, answers=None, head=3.0):
        self.labels, self.answers = labels, labels if answers is None else answers
        self.head_logits = head * (2.0 * labels - 1)

    def glance(self, images):
        return self.head_logits[images]

    def front(self, images):
        return FrontFeatures(images)

    def head(self, features):
        return HeadOutput(features, self.head_logits[features])

    def individual(self, features):
        signed = 10.0 * (self.answers[features] - 0.5)
        return NetworkOutput(np.stack([-signed, signed], axis=1), np.empty((len(features), 0)))

    def pooled(self, features, gate, pools, pool_size):
        counts = np.append(self.labels[features], 0)[pools].sum(axis=1)
        return NetworkOutput(14.0 * np.eye(pool_size + 1)[counts], np.empty((len(pools), 0)))


def planted_context(networks, prevalence, images=1000, seed=0):
    counting = CountingCalibration(flat_scaling(9), tuple(map(tuple, 500 * np.eye(9, dtype=int))))
    calibration = Calibration(flat_scaling(2), ROC, flat_scaling(2), ROC, {8: counting}, flat_scaling(2), ROC)
    mixture = draw_mixture(networks.labels, prevalence, images, np.random.default_rng(seed))
    return EvaluationContext(networks, LikelihoodModel(calibration), COST, (8,), True, mixture, seed)


def with_recordings(context):
    numbers = np.arange(len(LABELS))
    recordings = record_readings(
        context.networks, context.likelihoods, numbers, LABELS == 1, (8,), gated=True, glanced_at=numbers
    )
    return replace(context, recordings=recordings)


@pytest.mark.parametrize("prevalence", [0.01, 0.05])
@pytest.mark.parametrize("name", [name for name in COMPETITORS if not name.startswith("downsample-")])
def test_with_networks_that_are_always_right_all_is_found_at_the_cost_of_the_law(name, prevalence):
    networks = PlantedRecords(LABELS)
    competitor = COMPETITORS[name]
    setup = competitor.prepare(with_recordings(planted_context(networks, prevalence, seed=1)))
    context = planted_context(networks, prevalence, seed=2)
    run = context.run(setup.scheme)
    found = ImageCounts.count(context.mixture, run.flags).detection()
    n, meter = len(context.mixture), run.meter
    assert found.sensitivity.value == 1
    if name.startswith(("comp", "ncomp-2")) and prevalence > 0.01:
        # Where most pools of a clear image hold a bad one, binary group testing must flag it.
        assert found.specificity.value < 1
    elif name.startswith("ncomp-2"):
        assert found.specificity.value > 0.99
    else:
        # A one-shot reading does not always have one explanation only.
        assert found.specificity.value == (
            1 if setup.scheme.name != "oneshot" else pytest.approx(1, abs=5e-3)
        )
    heads = 0 if setup.scheme.name == "individual" else GATE
    law = F + heads + (meter.runs["pools"] + meter.runs["retests"]) / n * (1 - F)
    if name == "dorfman-recompute":  # the front again for whoever is tested
        law += meter.runs["retests"] / n * F
    if setup.scheme.name == "glance":
        law = COST.glance / COST.whole + meter.runs["retests"] / n
    assert meter.share == pytest.approx(law, rel=1e-12)
    pools = {"oneshot": n / 2, "individual": 0, "cascade": 0}
    if setup.scheme.name in pools:
        assert meter.runs["pools"] == pools[setup.scheme.name]
    if name == "individual":
        assert meter.share == 1
    if name == "mip":
        # Only chunks with improbably many bad images have tests.
        assert meter.share == pytest.approx(F + GATE + (1 - F) / 2, abs=0.01)


def test_intervals_cover_the_error_rate_of_the_individual_network():
    """Each image is found or missed whenever it is drawn; over many data sets the rate is known."""
    covered = {"sensitivity": 0, "specificity": 0}
    runs = 150
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        answers = np.where(rng.random(len(LABELS)) < np.where(LABELS == 1, 0.1, 0.03), 1 - LABELS, LABELS)
        context = planted_context(PlantedRecords(LABELS, answers), 0.05, 1200, seed)
        scheme = COMPETITORS["individual"].prepare(context).scheme
        found = ImageCounts.count(context.mixture, context.run(scheme).flags).detection()
        for name, truth in (("sensitivity", 0.9), ("specificity", 0.97)):
            share = getattr(found, name)
            covered[name] += share.low <= truth <= share.high
    assert 0.91 <= covered["sensitivity"] / runs <= 0.99
    assert 0.91 <= covered["specificity"] / runs <= 0.99


def test_a_scheme_is_set_to_its_cheapest_setting_that_detects_as_well():
    """The head knows half of the bad images only a little: clearing too much loses them."""
    networks = PlantedRecords(LABELS)
    rng = np.random.default_rng(0)
    networks.head_logits = np.where(
        LABELS == 1, rng.normal(1.0, 2.0, len(LABELS)), rng.normal(-2, 1, len(LABELS))
    )
    context = planted_context(networks, 0.05)
    competitor = COMPETITORS["cascade"]
    chosen = competitor.prepare(context).scheme
    wanted = detection_product(
        context.mixture, context.run(COMPETITORS["individual"].prepare(context).scheme).flags
    )
    cost = context.run(chosen).meter.share
    assert detection_product(context.mixture, context.run(chosen).flags) >= wanted - EQUAL
    for scheme in competitor.variants(context):
        run = context.run(scheme)
        assert run.meter.share >= cost or detection_product(context.mixture, run.flags) < wanted - EQUAL
    assert 0 < chosen.get("clear_below") < max(competitor.grid["clear_below"])


def test_tuning_a_decoder_finds_the_best_point_of_its_grid():
    class Noisy(PlantedRecords):
        def pooled(self, features, gate, pools, pool_size):
            logits = super().pooled(features, gate, pools, pool_size).logits
            rng = np.random.default_rng(int(pools.sum()) + int(np.asarray(features).sum()))
            return NetworkOutput(logits + rng.normal(0, 7, logits.shape), np.empty((len(pools), 0)))

    context = planted_context(Noisy(LABELS), 0.05, 500)
    setup = COMPETITORS["classo"].prepare(context)
    best = detection_product(context.mixture, context.run(setup.scheme).flags)
    assert setup.tuned.startswith("penalty=")
    for decoder in ("classo:penalty=0.3,threshold=0.5", "classo:penalty=1.0,threshold=0.25", "classo"):
        other = make_scheme("oneshot", context.pool_sizes, decoder=decoder, prevalence=0.05)
        assert detection_product(context.mixture, context.run(other).flags) <= best


def test_methods_are_chosen_by_name():
    assert [competitor.name for competitor in choose_competitors(["mip"])] == ["individual", "mip"]
    assert [c.name for c in choose_competitors()] == [
        n for n, c in list_competitors().items() if not c.by_name
    ]
    with pytest.raises(ValueError, match="no method is named 'best'; there are individual, indiv"):
        choose_competitors(["best"])
