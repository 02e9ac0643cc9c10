"""The paper's rules for bins, on histograms made by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.outliers import ScoreHistogram, make_histogram


def test_a_bin_stands_for_its_most_frequent_count():
    scores = [0.0, 0.1, 0.2, 1.1, 1.2, 1.3, 2.0]
    counts = [0, 0, 1, 2, 1, 2, 2]
    histogram = make_histogram(scores, counts, bins=2)  # [0, 1) and [1, 2]
    assert histogram.labels.tolist() == [0, 2]
    assert histogram.counts([0.5, 0.999, 1.0, 2.0]).tolist() == [0, 0, 2, 2]


def test_left_of_all_bins_is_zero_and_right_of_them_is_t():
    """Even where the outermost bins say otherwise."""
    histogram = make_histogram([0.0, 1.0, 0.5], [2, 1, 5], bins=4)
    assert histogram.counts([0.0, 1.0]).tolist() == [2, 1]
    assert histogram.counts([-1e-9, -1e6, 1.0 + 1e-9, 1e6]).tolist() == [0, 0, 5, 5]


def test_empty_bins_take_the_nearest_label_and_the_larger_index_on_a_tie():
    # Bins 0, 4 and 9 of ten are filled.
    histogram = make_histogram([0.0, 4.5, 10.0], [0, 3, 1], bins=10)
    assert histogram.labels.tolist() == [0, 0, 3, 3, 3, 3, 3, 1, 1, 1]


def test_one_bin_and_equal_scores():
    assert make_histogram([1.0, 2.0, 3.0], [1, 1, 0], bins=1).labels.tolist() == [1]
    flat = make_histogram([2.0, 2.0, 2.0], [0, 3, 3], bins=500)
    assert flat.counts([1.9, 2.0, 2.1]).tolist() == [0, 3, 3]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=40), st.integers(1, 12)
)
def test_the_rules_as_the_paper_words_them(pools, bins):
    scores, counts = np.array([p[0] / 4 for p in pools]), np.array([p[1] for p in pools])
    histogram = make_histogram(scores, counts, bins=bins)
    low, width = scores.min(), scores.max() - scores.min()
    place = np.minimum(((scores - low) / width * bins).astype(int), bins - 1) if width else 0 * counts
    table = [np.bincount(counts[place == j], minlength=4) for j in range(bins)]
    filled = [j for j in range(bins) if table[j].any()]
    for j in range(bins):
        nearest = min(filled, key=lambda other: (abs(other - j), -other))
        assert histogram.labels[j] == table[nearest].argmax()
    assert histogram.largest == counts.max()


def test_a_stored_histogram_is_the_same_and_nonsense_is_refused():
    histogram = make_histogram([0.0, 4.5, 10.0], [0, 3, 1], bins=10)
    again = ScoreHistogram.from_arrays(histogram.to_arrays())
    points = np.linspace(-1, 11, 50)
    assert again.counts(points).tolist() == histogram.counts(points).tolist()
    with pytest.raises(ValueError, match="no proper labels"):
        ScoreHistogram.from_arrays({"bounds": np.array([0.0, 1.0])})
    with pytest.raises(ValueError, match="between 0 and 1"):
        ScoreHistogram(0.0, 1.0, np.array([0, 2]), 1)
    with pytest.raises(ValueError, match="finite"):
        make_histogram([0.0, np.inf], [0, 1])
    with pytest.raises(ValueError, match="one score and one count"):
        make_histogram([0.0], [0, 1])
