import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from poolsieve.calibration import (
    Calibration,
    ErrorCorrelation,
    OutputScaling,
    calibrate_counting,
    confusion_counts,
    draw_confusion,
    draw_roc,
    error_correlation,
    fit_scaling,
    paired,
    roc_curve,
)
from poolsieve.calibration.error_correlation import _normal_cdf
from poolsieve.decoders import CountNoise, LatentNoise
from poolsieve.designs import Pooling

# ---- scaling


def planted(rng, count, temperature, biases, sharpness=2.0):
    """Logits of a network that is wrong by a known temperature and known biases."""
    honest = sharpness * rng.standard_normal((count, len(biases)))
    classes = np.array([rng.choice(len(biases), p=p) for p in np.exp(log_softmax(honest, axis=1))])
    return (honest - biases) * temperature, classes


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_planted_temperature_and_biases_are_found(temperature):
    biases = np.array([0.8, -0.3, 0.1, -0.6])
    logits, classes = planted(np.random.default_rng(0), 20_000, temperature, biases)
    scaling = fit_scaling(logits, classes)
    assert scaling.temperature == pytest.approx(temperature, rel=0.03)
    np.testing.assert_allclose(scaling.biases, biases, atol=0.06)
    assert sum(scaling.biases) == pytest.approx(0, abs=1e-9)


def test_scaled_probabilities_mean_what_they_say():
    logits, classes = planted(np.random.default_rng(1), 20_000, 2.5, np.array([0.5, -0.5]))
    bad = np.exp(fit_scaling(logits, classes).log_probabilities(logits))[:, 1]
    for low in (0.1, 0.4, 0.8):
        chosen = (bad >= low) & (bad < low + 0.1)
        assert classes[chosen].mean() == pytest.approx(bad[chosen].mean(), abs=0.04)


def test_likelihood_is_the_probability_without_the_prior():
    scaling = OutputScaling(2.0, (0.5, -0.5), (0.8, 0.2))
    logits = np.array([[1.0, 2.0], [0.0, 5.0]])
    difference = scaling.log_probabilities(logits) - scaling.log_likelihoods(logits)
    np.testing.assert_allclose(difference, np.log([[0.8, 0.2]] * 2))


@pytest.mark.parametrize(
    ("logits", "classes"),
    [
        (np.array([[9.0, 0.0], [0.0, 9.0]] * 50), np.array([0, 1] * 50)),  # never wrong
        (np.random.default_rng(0).standard_normal((100, 3)), np.zeros(100, dtype=int)),  # one class only
        (np.zeros((10, 4)), np.arange(10) % 4),  # says nothing
        (np.array([[0.0, 1.0]]), np.array([1])),  # one example
        (1e6 * np.random.default_rng(0).standard_normal((50, 2)), np.arange(50) % 2),  # wildly too sure
    ],
)
def test_degenerate_data_give_finite_scalings(logits, classes):
    scaling = fit_scaling(logits, classes)
    assert math.isfinite(scaling.temperature)
    assert np.isfinite(scaling.biases).all()
    assert np.isfinite(scaling.log_likelihoods(logits)).all()
    assert min(scaling.prior) > 0


def test_scaling_never_makes_the_fit_worse():
    logits, classes = planted(np.random.default_rng(2), 300, 1.7, np.array([0.2, 0.1, -0.3]))
    rows = np.arange(len(classes))
    before = log_softmax(logits, axis=1)[rows, classes].mean()
    assert fit_scaling(logits, classes).log_probabilities(logits)[rows, classes].mean() > before


def test_a_single_logit_becomes_two_outputs():
    logit = np.array([-1.0, 0.0, 3.0])
    pair = paired(logit)
    np.testing.assert_allclose(pair[:, 1] - pair[:, 0], logit)
    assert pair.shape == (3, 2)


@pytest.mark.parametrize(
    ("logits", "classes", "message"),
    [
        (np.zeros((3, 2)), np.zeros(4, dtype=int), "must agree"),
        (np.zeros((0, 2)), np.zeros(0, dtype=int), "must agree"),
        (np.array([[0.0, np.nan]]), np.array([0]), "finite"),
        (np.zeros((2, 2)), np.array([0, 2]), "whole numbers from 0 to 1"),
        (np.zeros((2, 2)), np.array([0.0, 1.0]), "whole numbers"),
    ],
)
def test_wrong_data_are_errors(logits, classes, message):
    with pytest.raises(ValueError, match=message):
        fit_scaling(logits, classes)


def test_logits_of_another_network_are_an_error():
    with pytest.raises(ValueError, match="for 2 outputs, but the logits have shape"):
        OutputScaling(1.0, (0.0, 0.0), (0.5, 0.5)).log_probabilities(np.zeros((4, 9)))


# ---- counts


def test_confusion_matrix_by_hand():
    table = confusion_counts([0, 0, 1, 2, 2], [0, 1, 1, 2, 0], 2)
    assert table.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    with pytest.raises(ValueError, match="readings must be whole numbers from 0 to 2"):
        confusion_counts([0], [3], 2)


@given(st.floats(-4, 4), st.floats(-4, 4), st.floats(-0.98, 0.98))
@settings(deadline=None, max_examples=60)
def test_bivariate_normal_agrees_with_scipy(h, k, correlation):
    expected = multivariate_normal(cov=[[1, correlation], [correlation, 1]]).cdf([h, k])
    found = _normal_cdf(np.array([h]), np.array([k]), np.array([correlation]))[0]
    assert found == pytest.approx(expected, abs=2e-5)


@pytest.fixture(scope="module")
def noise():
    return LatentNoise.from_accuracy((0.9, 0.75, 0.7, 0.65), pool_size=8)


@pytest.mark.parametrize("planted_share", [0.0, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("prevalence", [0.03, 0.15])
def test_planted_correlation_is_found(paper_design, noise, planted_share, prevalence):
    rng = np.random.default_rng(int(100 * planted_share))
    bad = rng.random((400, 100)) < prevalence
    read = noise.sample(bad, paper_design, rng, correlation=planted_share).counts
    found = error_correlation(bad, read, paper_design)
    assert found.latent == pytest.approx(planted_share, abs=0.08)
    assert found.pairs == 400 * 100 * 6  # every image joins its four pools in six pairs
    if planted_share == 0:
        assert abs(found.shared_bad) < 0.02
    else:
        assert found.shared_bad > abs(found.shared_clean)


def test_correlation_by_hand():
    """Two pools that share one bad image and always err together."""
    pooling = Pooling([[0, 1], [0, 2]], images=3)
    bad = np.tile([1, 0, 0], (200, 1))
    read = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 1)), 2, axis=1)
    found = error_correlation(bad, read, pooling)
    assert found.latent > 0.95
    assert found.shared_bad == pytest.approx(1.0)
    assert found.shared_clean == 0.0
    assert found.pairs == 200


def test_readings_without_an_error_have_no_correlation(paper_design):
    bad = np.random.default_rng(0).random((20, 100)) < 0.05
    found = error_correlation(bad, paper_design.counts(bad), paper_design)
    assert found.shared_bad == found.shared_clean == 0.0
    assert 0 <= found.latent <= 1


def test_correlation_needs_shared_images():
    with pytest.raises(ValueError, match="no two pools share an image"):
        error_correlation([[0, 1]], [[0, 1]], Pooling([[0], [1]], images=2))
    with pytest.raises(ValueError, match="shape"):
        error_correlation([[0, 1]], [[0, 1, 1]], Pooling([[0, 1], [1]], images=2))


# ---- ROC


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=60).filter(
        lambda pairs: len({bad for _, bad in pairs}) == 2
    )
)
def test_auc_is_the_share_of_pairs_in_the_right_order(pairs):
    scores, bad = (np.array(part) for part in zip(*pairs, strict=True))
    above, below = scores[bad][:, None], scores[~bad][None, :]
    expected = np.mean((above > below) + 0.5 * (above == below))
    curve = roc_curve(scores, bad)
    assert curve.auc == pytest.approx(expected)
    assert np.trapezoid(curve.true_positive_rate, curve.false_positive_rate) == pytest.approx(expected)
    assert (curve.false_positive_rate[0], curve.true_positive_rate[0]) == (0, 0)
    assert (curve.false_positive_rate[-1], curve.true_positive_rate[-1]) == (1, 1)


def test_curves_are_thinned_without_changing_the_area():
    rng = np.random.default_rng(0)
    bad = rng.random(5000) < 0.3
    scores = rng.standard_normal(5000) + bad
    thin, full = roc_curve(scores, bad, points=100), roc_curve(scores, bad, points=10_000)
    assert len(thin.true_positive_rate) <= 100 < len(full.true_positive_rate)
    assert thin.auc == full.auc


@pytest.mark.parametrize(
    ("scores", "bad", "message"),
    [
        ([1.0, 2.0], [1, 1], "needs bad and clean"),
        ([1.0, np.inf], [0, 1], "finite"),
        ([1.0], [0, 1], "one score"),
    ],
)
def test_impossible_curves_are_errors(scores, bad, message):
    with pytest.raises(ValueError, match=message):
        roc_curve(scores, bad)


# ---- the record


@pytest.fixture
def calibration():
    rng = np.random.default_rng(0)
    logits, counts = planted(rng, 500, 1.5, np.array([0.3, 0.0, -0.3]))
    bad = rng.random(200) < 0.5
    scores = bad + rng.standard_normal(200)
    return Calibration(
        individual=fit_scaling(paired(scores), bad.astype(int)),
        individual_roc=roc_curve(scores, bad),
        counting={2: calibrate_counting(logits, counts, ErrorCorrelation(0.3, 0.2, 0.0, 600))},
    )


def test_a_file_gives_back_what_was_saved(calibration, tmp_path):
    path = calibration.save(tmp_path / "calibration.json")
    assert Calibration.load(path) == calibration
    whole = dataclasses.replace(calibration, head=calibration.individual, head_roc=calibration.individual_roc)
    assert Calibration.from_json(json.loads(json.dumps(whole.to_json()))) == whole


def test_the_confusion_matrix_holds_every_pool(calibration):
    part = calibration.counting[2]
    assert np.sum(part.confusion) == 500
    noise = CountNoise((np.array(part.confusion) + 1) / (np.array(part.confusion) + 1).sum(1, keepdims=True))
    assert noise.pool_size == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["individual"].update(temperature=float("nan")), "individual.temperature is nan"),
        (lambda v: v["individual"].update(temperature=-1.0), "above 0"),
        (
            lambda v: v["counting"]["2"]["scaling"]["biases"].__setitem__(1, float("inf")),
            r"biases\[1\] is inf",
        ),
        (lambda v: v["counting"]["2"]["confusion"].pop(), "must be 3 × 3"),
        (lambda v: v.pop("individual_roc"), "not a calibration"),
        (lambda v: v.update(format=99), "format 99 is not 1"),
        (lambda v: v["individual"].update(prior=[0.9, 0.9]), "sum 1"),
    ],
)
def test_damaged_files_are_refused(calibration, tmp_path, change, message):
    values = json.loads(json.dumps(calibration.to_json()))
    change(values)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=rf"calibration\.json: .*{message}"):
        Calibration.load(path)


def test_pictures(calibration, tmp_path):
    roc = draw_roc({"individual": calibration.individual_roc}, tmp_path / "roc.png")
    confusion = draw_confusion(calibration.counting[2].confusion, tmp_path / "confusion.svg")
    assert roc.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in confusion.read_bytes()
    with pytest.raises(ValueError, match="figures end in"):
        draw_confusion([[1]], tmp_path / "picture.gif")


def test_calibration_needs_no_torch():
    code = "import sys, poolsieve.calibration; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
