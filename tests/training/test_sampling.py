import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.training import TrainingSettings
from poolsieve.training.sampling import (
    PAPER_SHARES,
    balanced_batches,
    check_shares,
    draw_pools,
    epoch_generator,
    pool_shares,
    require_enough,
    split_by_shares,
    weighted_accuracy,
    weighted_likelihood,
)

LABELS = np.array([1] * 30 + [0] * 70)


def test_the_papers_distribution_is_exact():
    assert split_by_shares(100, pool_shares(8)).tolist() == [40, 24, 12, 6, 6, 3, 3, 3, 3]
    pools = draw_pools(LABELS, split_by_shares(6300, pool_shares(8)), np.random.default_rng(0))
    shares = np.bincount(pools.counts, minlength=9) / 6300
    assert shares.tolist() == pytest.approx(PAPER_SHARES)
    assert (LABELS[pools.members].sum(axis=1) == pools.counts).all()


@given(
    st.integers(1, 500), st.lists(st.floats(0, 10), min_size=2, max_size=12).filter(lambda w: sum(w) > 0.1)
)
def test_numbers_sum_up_and_differ_from_shares_by_less_than_one(total, weights):
    shares = check_shares(weights, len(weights) - 1)
    numbers = split_by_shares(total, shares)
    assert numbers.sum() == total
    assert np.abs(numbers - shares * total).max() < 1


@given(st.integers(2, 10), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_pools_hold_distinct_images_and_use_all_evenly(size, number, seed):
    labels = np.array([1] * 11 + [0] * 13)
    pools = draw_pools(labels, split_by_shares(number, pool_shares(size)), np.random.default_rng(seed))
    assert pools.members.shape == (number, size)
    assert all(len(set(row)) == size for row in pools.members.tolist())
    assert (labels[pools.members].sum(axis=1) == pools.counts).all()
    for group in (pools.members[labels[pools.members] == label] for label in (0, 1)):
        used = np.unique(group, return_counts=True)[1]
        if len(group):
            assert used.max() - used.min() <= 1


def test_bad_images_stand_in_any_place():
    pools = draw_pools(LABELS, [0, 400, 0, 0], np.random.default_rng(0))
    places = np.argmax(LABELS[pools.members], axis=1)
    assert np.bincount(places, minlength=3).min() > 90


@pytest.mark.parametrize("size", [1, 2, 4, 16])
def test_other_pool_sizes_keep_the_proportions(size):
    shares = pool_shares(size)
    assert shares.sum() == pytest.approx(1)
    common = min(size, 8) + 1
    assert (shares[:common] / shares[0]).tolist() == pytest.approx([s / 0.40 for s in PAPER_SHARES[:common]])
    assert (np.diff(shares) <= 0).all()


def test_epochs_differ_and_repeat():
    def members(seed, epoch):
        return draw_pools(LABELS, [5, 5, 5], epoch_generator(seed, "pools", epoch)).members.tolist()

    assert members(1, 3) == members(1, 3)
    assert members(1, 3) != members(1, 4)
    assert members(1, 3) != members(2, 3)
    assert epoch_generator(1, "a", 3).random() != epoch_generator(1, "b", 3).random()


@pytest.mark.parametrize("bad", [30, 70])
def test_balanced_epochs_hold_the_smaller_class_whole(bad):
    labels = np.array([1] * bad + [0] * (100 - bad))

    def positions(seed):
        batches = balanced_batches(labels, 25, TrainingSettings(seed=seed), "individual", 0)
        assert [len(batch.counts) for batch in batches] == [25, 25, 10]
        assert all((labels[batch.positions] == batch.counts).all() for batch in batches)
        return np.concatenate([batch.positions for batch in batches])

    order = positions(0)
    assert len(order) == len(set(order.tolist())) == 60
    assert labels[order].sum() == 30
    assert 10 < labels[order[:30]].sum() < 20  # shuffled
    assert order.tolist() != positions(1).tolist()


def test_balanced_epochs_hold_all_flagged_images_on_request():
    labels = np.array([1] * 70 + [0] * 30)
    batches = balanced_batches(labels, 25, TrainingSettings(balance="flagged"), "individual", 0)
    order = np.concatenate([batch.positions for batch in batches])
    assert len(order) == 140
    assert sorted(order[labels[order] == 1]) == list(range(70))
    assert 20 < len(set(order[labels[order] == 0].tolist())) <= 30  # 70 draws of 30 images
    few = balanced_batches(1 - labels, 25, TrainingSettings(balance="flagged"), "individual", 0)
    assert len(np.unique(np.concatenate([batch.positions for batch in few]))) == 60  # no image twice


def test_too_few_images_say_what_is_needed():
    with pytest.raises(
        ValueError, match="split 'val' has 5 bad images, but pools of 8 with up to 8 bad ones"
    ):
        require_enough(5, 100, pool_shares(8), "split 'val'")
    with pytest.raises(ValueError, match="7 ordinary images"):
        require_enough(50, 7, pool_shares(8))
    require_enough(3, 8, [0.5, 0.2, 0.2, 0.1, 0, 0, 0, 0, 0])  # pools with at most 3 need but 3


@pytest.mark.parametrize("shares", [[1, 1], [1, -1, 1, 1, 1], [0] * 5, [1, 1, 1, 1, float("nan")]])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(ValueError, match="shares"):
        check_shares(shares, 4)


def test_weighted_accuracy_is_the_papers_formula():
    """Acc_0 = 1, Acc_1 = .5, Acc_2 = 0 with p = .1: .81 * 1 + .18 * .5 + .01 * 0."""
    counts = np.array([0, 0, 1, 1, 2, 2])
    read = np.array([0, 0, 1, 0, 1, 1])
    assert weighted_accuracy(counts, read, 2, 0.1) == pytest.approx(0.9)
    assert weighted_accuracy(counts, read, 2, 1e-9) == pytest.approx(1)


def test_weighted_accuracy_leaves_out_counts_without_pools():
    assert weighted_accuracy([0, 2], [0, 1], 2, 0.1) == pytest.approx(0.81 / 0.82)


def test_likelihood_is_weighted_as_accuracy_is():
    logits = np.log([[0.8, 0.1, 0.1], [0.5, 0.25, 0.25], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])
    weights = np.array([0.81, 0.18, 0.01])  # Binom(2, .1)
    means = np.array([(np.log(0.8) + np.log(0.5)) / 2, np.log(0.6), np.log(0.4)])
    assert weighted_likelihood([0, 0, 1, 2], logits, 0.1) == pytest.approx(weights @ means)
    without = weighted_likelihood([0, 0, 1, 1], logits, 0.1)  # no pool of two: the others' weights grow
    means = np.array([means[0], (np.log(0.6) + np.log(0.3)) / 2])
    assert without == pytest.approx(weights[:2] @ means / weights[:2].sum())


def test_likelihood_prefers_a_network_that_tells_more():
    counts = np.array([0, 1] * 50)
    timid = np.tile([5.0, 0.0, -5.0], (100, 1))  # calls all pools clean
    bold = np.where(counts[:, None] == 0, [0.4, 0.6, -5.0], [-2.0, 2.0, -5.0])  # errs narrowly on clean ones
    accuracies = [weighted_accuracy(counts, table.argmax(axis=1), 2, 0.1) for table in (timid, bold)]
    likelihoods = [weighted_likelihood(counts, table, 0.1) for table in (timid, bold)]
    assert accuracies[0] > accuracies[1]
    assert likelihoods[0] < likelihoods[1]
