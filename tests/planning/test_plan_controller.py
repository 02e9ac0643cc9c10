"""Plans change with the share of bad images: a flood and a calm."""

import numpy as np
import pytest
from noisy import NoisyEngine, noisy_pixels, record
from planted import COST

from poolsieve.moderation import Moderator
from poolsieve.moderation.report import RunDescription, moderation_page
from poolsieve.planning import PlanController, Target, make_table
from poolsieve.planning.plan_controller import CAUTIOUS
from poolsieve.planning.table import PREVALENCES, table_bytes, table_from

WITHIN = 0.02


@pytest.fixture(scope="module")
def planned():
    bundle, recordings = record(NoisyEngine(), bad=300, clear=900, pool_sizes=(8,))
    return bundle, make_table(recordings, bundle.config.pool_sizes, COST, Target(within=WITHIN), gated=True)


def stream(parts, chunk, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.concatenate([rng.random(chunks * chunk) < prevalence for chunks, prevalence in parts])
    return truth, noisy_pixels(truth, seed)


def moderator_of(planned, **settings):
    bundle, plans = planned
    return Moderator(bundle, NoisyEngine(), plans, seed=3, reading_threads=2, **settings)


def run(moderator, pixels):
    """Flags, and cost of each chunk."""
    flags, costs, before = [], [], 0.0
    for verdicts in moderator.moderate_chunks(list(pixels)):
        flags += [verdict.flagged for verdict in verdicts]
        spent = moderator.totals.meter.share * moderator.totals.images
        costs.append((spent - before) / len(verdicts))
        before = spent
    return np.array(flags), np.array(costs)


def test_a_flood_and_a_calm_are_followed(planned):
    _, plans = planned
    moderator = moderator_of(planned)
    chunk = moderator.scheme.chunk_size
    truth, pixels = stream([(10, 0.005), (8, 0.3), (22, 0.001)], chunk)
    flags, costs = run(moderator, pixels)
    plan = {plan.prevalence: plan for plan in plans}
    flood, first = slice(10 * chunk, 18 * chunk), slice(10 * chunk, 11 * chunk)
    assert flags[flood][truth[flood]].mean() >= plan[0.35].sensitivity.low
    assert flags[first][truth[first]].mean() >= plan[0.35].sensitivity.low - 0.05  # before the plan changed
    assert (~flags[~truth]).mean() >= plan[0.35].specificity.low
    assert costs[12:18].mean() == pytest.approx(plan[0.35].cost.value, abs=0.08)
    assert costs[-8:].mean() == pytest.approx(plan[0.005].cost.value, abs=0.03)
    rises = [switch for switch in moderator.totals.controller.switches if switch.plan.prevalence >= 0.2]
    assert rises[0].chunk == 11  # after the first chunk of the flood
    assert moderator.totals.controller.plan.prevalence <= 0.005
    assert "prevalence" in moderator.totals.plan_changes()[0]


def test_the_log_and_the_report_tell_every_change_of_plan(planned, caplog):
    moderator = moderator_of(planned)
    _, pixels = stream([(3, 0.002)], moderator.scheme.chunk_size)
    with caplog.at_level("INFO", "poolsieve.planning.plan_controller"):
        list(moderator.moderate(list(pixels)))
    changes = moderator.totals.plan_changes()
    assert changes
    assert [record.getMessage() for record in caplog.records] == changes
    run = RunDescription("noisy", "ab" * 32, "noise", moderator.description, 3)
    page = moderation_page(run, moderator.totals, [], {}, {}, [])
    assert f"At first: {moderator.totals.first_plan()}." in page
    assert all(f"<li>{line}</li>" in page for line in changes)


def test_it_starts_cautiously_unless_told(planned):
    assert moderator_of(planned).totals.controller.plan.prevalence == CAUTIOUS
    assert moderator_of(planned, prevalence=0.004).totals.controller.plan.prevalence == 0.005


def test_every_verdict_names_the_scheme_that_decided_it(planned):
    moderator = moderator_of(planned)
    _, pixels = stream([(6, 0.002)], moderator.scheme.chunk_size)
    schemes = {}
    for verdict in moderator.moderate(list(pixels)):
        schemes.setdefault(verdict.chunk, set()).add(verdict.scheme)
    assert all(len(names) == 1 for names in schemes.values())
    changes = [k for k in range(1, 6) if schemes[k] != schemes[k - 1]]
    assert changes == [switch.chunk for switch in moderator.totals.controller.switches if switch.chunk < 6]
    assert changes


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(planned):
    whole = moderator_of(planned)
    chunk = whole.scheme.chunk_size
    _, pixels = stream([(4, 0.01), (5, 0.2)], chunk, seed=4)
    expected = list(whole.moderate(list(pixels)))
    begun = moderator_of(planned)
    done, state = [], None
    for number, verdicts in enumerate(begun.moderate_chunks(list(pixels))):
        done += verdicts
        state = begun.totals.state()
        if number == 4:
            break
    resumed = moderator_of(planned)
    names = [verdict.path for verdict in done]
    for verdicts in resumed.moderate_chunks(list(pixels), done=names, state=state):
        done += verdicts
    assert done == expected
    assert resumed.totals.controller.state() == whole.totals.controller.state()
    assert resumed.description == whole.description
    changes = whole.totals.plan_changes()
    assert resumed.totals.plan_changes() == changes
    assert min(switch.chunk for switch in whole.totals.controller.switches) <= 4  # one before it was stopped


def test_the_estimate_covers_the_truth(planned):
    """Over runs at one prevalence the interval of the last images covers it nearly always."""
    covered = 0
    for seed in range(8):
        moderator = moderator_of(planned)
        _, pixels = stream([(4, 0.02)], moderator.scheme.chunk_size, seed=seed + 20)
        list(moderator.moderate(list(pixels)))
        estimate = moderator.totals.controller.estimate()
        covered += estimate.low <= 0.02 <= estimate.high
    assert covered >= 6


def test_plans_change_to_one_that_is_at_hand(planned):
    bundle, plans = planned
    controller = PlanController(plans, bundle.config.pool_sizes, 0.001)
    moderator = moderator_of(planned)
    _, pixels = stream([(1, 0.3)], controller.chunk_size)
    decisions = []
    original = PlanController.observe

    def spy(self, decision, images, chunk):
        decisions.append(decision)
        return original(self, decision, images, chunk)

    PlanController.observe = spy
    try:
        list(moderator.moderate(list(pixels)))
    finally:
        PlanController.observe = original
    switch = controller.observe(decisions[0], controller.chunk_size, 0)
    assert switch is not None
    assert any(switch.plan is plan for plan in plans)  # nothing is searched while images wait
    assert switch.plan.prevalence >= 0.2


def test_a_table_survives_its_file(planned):
    _, plans = planned
    assert table_from(table_bytes(plans)) == plans
    assert [plan.prevalence for plan in plans] == list(PREVALENCES)
    with pytest.raises(ValueError, match="ascending"):
        table_from(table_bytes(plans[::-1]))
    with pytest.raises(ValueError, match="not a table"):
        table_from(b"{}")
