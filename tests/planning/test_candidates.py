"""Pools that decide alone are considered with every decoder, and the plan says which."""

import numpy as np
import pytest
from noisy import NoisyEngine, record
from planted import COST

from poolsieve.decoders import Readings, parse_decoder
from poolsieve.planning import Target, search
from poolsieve.planning.candidates import all_candidates
from poolsieve.schemes import make_scheme
from poolsieve.schemes.decoded_pools import PLANNED_DECODERS as DECODERS

PREVALENCE = 0.02


@pytest.fixture(scope="module")
def recorded():
    return record(NoisyEngine(), head=False)


def everyone(recordings, size):
    return next(one for one in recordings.pools if one.pool_size == size and one.everyone)


def oneshots(recordings, size, classes, decoder):
    found, _ = all_candidates(recordings, PREVALENCE, (size,), COST, gated=True)
    oneshot = [one for one in found if one.scheme.name == "oneshot"]
    return [
        one
        for one in oneshot
        if (one.stage.decoder.partition(":")[0], one.parameters["pools_per_image"]) == (decoder, classes)
    ]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("classes", [1, 2, 5])
def test_a_bound_flags_what_the_decoder_of_its_settings_flags(recorded, decoder, classes):
    recordings = recorded[1]
    pools = everyone(recordings, 8)
    (candidate,) = oneshots(recordings, 8, classes, decoder)
    counts = pools.counts[:, :classes].reshape(len(pools.counts), -1).astype(np.int64)
    tables = pools.likelihoods[:, :classes].astype(np.float64)
    soft = Readings.soft(tables.reshape(len(tables), -1, tables.shape[-1]))
    for bound in candidate.bounds[:: max(1, len(candidate.bounds) // 6)]:
        settings = candidate.settings(float(bound))
        chosen = parse_decoder(settings["decoder"]).decoder
        read = soft if decoder == "bp" else Readings(counts)
        flags = chosen.decode(read, pools.layout.first(classes), PREVALENCE).flags
        differing = np.mean(flags.ravel() != (candidate.values >= bound))
        assert differing < 1e-3  # rounding, where a score is the bound


def test_one_to_six_pools_per_image_and_every_decoder_are_tried(recorded):
    candidates, left_out = all_candidates(recorded[1], PREVALENCE, (4, 8), COST, gated=True)
    assert left_out == []
    tried = {
        (one.parameters["pool_size"], one.parameters["pools_per_image"], one.stage.decoder.partition(":")[0])
        for one in candidates
        if one.scheme.name == "oneshot"
    }
    wanted = {(8, c, decoder) for c in range(1, 7) for decoder in DECODERS}
    assert wanted | {(4, c, decoder) for c in range(1, 4) for decoder in DECODERS} == tried


def test_plans_of_every_decoder_are_schemes_that_run(recorded):
    bundle, recordings = recorded
    found = search(recordings, PREVALENCE, Target(0.3, 0.5), bundle.config.pool_sizes, COST, gated=True)
    plans = [plan for plan in found.plans if plan.scheme == "oneshot"]
    assert {plan.parameters["decoder"].partition(":")[0] for plan in plans} == set(DECODERS)
    for plan in plans:
        make_scheme(plan.scheme, bundle.config.pool_sizes, **plan.parameters)
