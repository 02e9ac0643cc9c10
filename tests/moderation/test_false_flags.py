from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from planted import (
    PlantedEngine,
    moderator_by,
    planted_bundle,
    planted_moderator,
    planted_pixels,
    planted_plans,
)

from poolsieve.moderation import Moderator, Totals
from poolsieve.moderation.false_flags import (
    DetectionRates,
    detection_rates,
    expected_false,
    false_flags_sentence,
)
from poolsieve.planning.plans import save_plan
from poolsieve.schemes import CostMeter, Glance, Head, Prevalence, Scheme, Test
from poolsieve.statistics import Estimate

SURE = Estimate(1.0, 1.0, 1.0)


def test_the_expected_number_is_that_of_bayes():
    rates = DetectionRates(Estimate(0.9, 0.9, 0.9), Estimate(0.99, 0.99, 0.99), "")
    found = expected_false(100, Prevalence(0.01, 0.01, 0.01), rates)
    assert found.value == pytest.approx(100 * 0.0099 / (0.0099 + 0.009))
    luck = 1.96 * np.sqrt(found.value * (100 - found.value) / 100)
    assert (found.low, found.high) == pytest.approx((found.value - luck, found.value + luck), rel=1e-3)


@pytest.mark.parametrize("doubt", [0.0, 0.2])
def test_the_interval_covers_what_happens(doubt):
    """Of runs with known truth, whose prevalence and specificity are known but for some doubt."""
    rng = np.random.default_rng(1)
    images, runs, inside = 2000, 400, 0
    for _ in range(runs):
        specificity = 1 - 0.01 * np.exp(doubt * rng.normal())
        pi = 0.01 * np.exp(doubt * rng.normal())
        bad = rng.binomial(images, pi)
        false, true = rng.binomial(images - bad, 1 - specificity), rng.binomial(bad, 0.9)
        wide = np.exp(1.96 * doubt)
        known = Prevalence(0.01, 0.01 / wide, 0.01 * wide)
        rates = DetectionRates(Estimate(0.9, 0.9, 0.9), Estimate(0.99, 1 - 0.01 * wide, 1 - 0.01 / wide), "")
        found = expected_false(false + true, known, rates)
        inside += round(found.low) <= false <= round(found.high)
    assert 0.93 <= inside / runs <= 1.0


@pytest.mark.parametrize("flagged", [0, 1, 7])
def test_no_more_are_false_than_there_are(flagged):
    rates = DetectionRates(SURE, Estimate(0.5, 0.1, 0.9), "")
    found = expected_false(flagged, Prevalence(0.0, 0.0, 0.3), rates)
    assert 0 <= found.low <= found.value <= found.high <= flagged
    perfect = DetectionRates(SURE, SURE, "")
    assert expected_false(flagged, Prevalence(0.0, 0.0, 0.3), perfect).value == 0


def totals_of(moderator, bad=6):
    list(moderator.moderate(planted_pixels(np.arange(300) < bad)))
    return moderator


def test_plans_that_were_followed_count_by_their_chunks():
    plans = [
        replace(plan, specificity=Estimate(value, value - 0.01, value + 0.01))
        for plan, value in zip(planted_plans(), (0.9, 0.8, 0.7), strict=True)
    ]
    usual = moderator_by("auto")
    moderator = totals_of(Moderator(usual.bundle, PlantedEngine(), plans, seed=7), bad=60)
    controller = moderator.totals.controller
    expected = np.zeros(3)
    for number in range(3):  # 300 images are three chunks of 104
        plan = controller.first
        for switch in controller.switches:
            plan = switch.plan if switch.chunk <= number else plan
        expected += np.array([plan.specificity.value, plan.specificity.low, plan.specificity.high]) / 3
    assert controller.switches  # or this tests nothing
    found = detection_rates(moderator).specificity
    assert (found.value, found.low, found.high) == pytest.approx(tuple(expected))


def test_a_plan_from_a_file_promises_for_its_run(tmp_path):
    moderator = totals_of(planted_moderator("glance"))
    plan = replace(planted_plans()[0], specificity=Estimate(0.987, 0.98, 0.99))
    file = save_plan(plan, tmp_path / "plan.json", bundle=planted_bundle().hash)
    found = detection_rates(moderator, file)
    assert found.specificity == plan.specificity
    assert "its plan promises" in found.source


def recorded(moderator):
    """A bundle that was measured: of 10 bad images 9 are found, of 1,000 clear ones 20 flagged."""
    bad = np.arange(1010) < 10
    scores = np.where(np.arange(1010) % 50 == 1, 0.9, 0.1)
    scores[:9], scores[9] = 0.8, 0.2
    moderator.bundle = SimpleNamespace(
        **{**vars(moderator.bundle), "has_recordings": True},
        recordings=lambda: SimpleNamespace(bad=bad, scores=scores),
    )
    return moderator


def test_a_scheme_without_a_plan_has_what_was_measured_of_individual_testing():
    found = detection_rates(recorded(totals_of(planted_moderator("individual"))))
    assert found.sensitivity.value == 0.9
    assert found.specificity.value == 0.98
    assert found.specificity.low < 0.98 < found.specificity.high
    assert not found.at_most
    assert detection_rates(recorded(totals_of(planted_moderator("glance")))).at_most
    listed = Moderator(planted_bundle(), PlantedEngine(), Scheme((Test(),)), seed=7)
    assert not detection_rates(recorded(totals_of(listed))).at_most
    strict = detection_rates(recorded(totals_of(planted_moderator("individual", threshold=0.85))))
    assert strict.sensitivity.value == 0


def test_where_nothing_was_measured_nothing_is_claimed():
    assert detection_rates(totals_of(planted_moderator("individual"))) is None
    assert detection_rates(recorded(totals_of(planted_moderator("oneshot")))) is None
    assert detection_rates(recorded(totals_of(planted_moderator("cascade", flag_above=0.9)))) is None
    second = Scheme((Glance(), Head(flag_above=0.9), Test()))
    listed = Moderator(planted_bundle(), PlantedEngine(), second, seed=7)
    assert detection_rates(recorded(totals_of(listed))) is None


def test_the_sentence_gives_number_and_interval():
    moderator = recorded(totals_of(planted_moderator("individual")))
    sentence = false_flags_sentence(moderator.totals, detection_rates(moderator))
    found = expected_false(6, moderator.totals.estimated_prevalence(), detection_rates(moderator))
    assert sentence.startswith(
        f"Of these 6 flags about {found.value:.0f} ({found.low:.0f}–{found.high:.0f}) are expected to be"
    )
    assert "1,000 clear validation images" in sentence
    assert "not known" in false_flags_sentence(moderator.totals, None)
    none = totals_of(planted_moderator("individual"), bad=0)
    assert false_flags_sentence(none.totals, None) == ""
    assert false_flags_sentence(Totals(CostMeter(planted_bundle().config.cost)), None) == ""
