import numpy as np
import pytest

from poolsieve.decoders import GreedyCounts, QuantitativeThreshold
from poolsieve.designs import disjoint_design, grid_design


@pytest.mark.parametrize("decoder", [GreedyCounts(), QuantitativeThreshold()])
def test_a_few_bad_images_are_found_without_noise(decoder, paper_design):
    generator = np.random.default_rng(0)
    for bad_images in (0, 1, 2):
        bad = np.zeros((500, 100), dtype=bool)
        for row in bad:
            row[generator.choice(100, bad_images, replace=False)] = True
        flags = decoder.decode(paper_design.counts(bad), paper_design).flags
        assert (flags == bad).all(axis=1).mean() > 0.97


def test_the_threshold_score_is_centred_on_what_chance_gives(paper_design):
    """Over many chunks clear images score 0 on average and bad ones 1."""
    bad = np.random.default_rng(1).random((20_000, 100)) < 0.1
    scores = QuantitativeThreshold().decode(paper_design.counts(bad), paper_design).scores
    assert scores[~bad].mean() == pytest.approx(0, abs=0.02)
    assert scores[bad].mean() == pytest.approx(1, abs=0.02)


def test_the_centre_is_right_for_small_designs_too():
    design = grid_design(3, 3)
    bad = np.random.default_rng(1).random((40_000, 9)) < 0.2
    scores = QuantitativeThreshold().decode(design.counts(bad), design).scores
    # Chunks with k bad images are centred with k itself, so that the mean is exact at every k.
    for k in (1, 2, 3):
        chosen = bad.sum(axis=1) == k
        clear, flagged = scores[chosen][~bad[chosen]], scores[chosen][bad[chosen]]
        assert clear.mean() == pytest.approx(0, abs=0.02) and flagged.mean() == pytest.approx(1, abs=0.02)


def test_a_pool_of_everyone_says_nothing_of_anyone():
    scores = QuantitativeThreshold().decode([[3]], disjoint_design(10, 10)).scores
    assert not scores.any()


def test_greedy_takes_what_its_pools_hold(paper_design):
    """Flagged images never explain more than the readings, when these are right and nothing is ambiguous."""
    bad = np.zeros(100, dtype=bool)
    bad[[3, 70]] = True
    decoding = GreedyCounts().decode(paper_design.counts(bad), paper_design)
    assert np.flatnonzero(decoding.flags[0]).tolist() == [3, 70]
    assert not decoding.scores[0][~bad].any()


def test_greedy_margin_asks_for_more_evidence(paper_design):
    counts = np.zeros(50, dtype=int)
    counts[paper_design.pools_of[5][:3]] = 1  # three of four pools
    assert GreedyCounts(margin=0.5).decode(counts, paper_design).flags[0, 5]
    assert not GreedyCounts(margin=1.0).decode(counts, paper_design).flags.any()
