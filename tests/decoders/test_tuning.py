import numpy as np
import pytest

from poolsieve.decoders import COMP, MIP, NCOMP, BeliefPropagation, CLasso, decoder_name, tune


@pytest.fixture(scope="module")
def labelled(paper_design, study_noise):
    generator = np.random.default_rng(0)
    bad = generator.random((400, 100)) < 0.05
    return study_noise.sample(bad, paper_design, generator), bad


def test_the_product_is_maximised_over_the_whole_grid(labelled, paper_design):
    readings, bad = labelled
    tuned = tune(NCOMP(), readings, bad, design=paper_design)
    assert [point.parameters["t"] for point in tuned.curve] == [0, 1, 2, 3]
    assert tuned.best.product == max(point.product for point in tuned.curve)
    assert tuned.decoder == NCOMP(t=tuned.best.parameters["t"])
    assert tuned.target_met


def test_a_floor_on_sensitivity_maximises_specificity(labelled, paper_design):
    readings, bad = labelled
    tuned = tune(NCOMP(), readings, bad, design=paper_design, min_sensitivity=0.9)
    allowed = [point for point in tuned.curve if point.sensitivity >= 0.9]
    assert tuned.target_met and tuned.best.specificity == max(point.specificity for point in allowed)
    strict = tune(NCOMP(), readings, bad, design=paper_design, min_specificity=0.98)
    assert strict.best.specificity >= 0.98
    assert strict.decoder.t >= tuned.decoder.t


def test_a_floor_that_cannot_be_reached_is_reported(labelled, paper_design):
    readings, bad = labelled
    tuned = tune(NCOMP(), readings, bad, {"t": (3,)}, design=paper_design, min_sensitivity=1.0)
    assert not tuned.target_met


@pytest.mark.parametrize("decoder", [CLasso(), MIP(), BeliefPropagation()])
def test_default_grids_improve_on_poor_parameters(labelled, paper_design, decoder):
    readings, bad = labelled
    tuned = tune(decoder, readings, bad, design=paper_design, priors=0.05)
    poor = {"classo": {"threshold": 0.9}, "mip": {"penalty": 4.0}, "bp": {"threshold": 0.001}}
    flags = decoder.replace(**poor[decoder_name(decoder)]).decode(readings, paper_design, 0.05).flags
    product = (flags & bad).sum() / bad.sum() * (~flags & ~bad).sum() / (~bad).sum()
    assert tuned.best.product > max(product, 0.98)


def test_a_decoder_without_parameters_has_a_curve_of_one_point(labelled, paper_design):
    readings, bad = labelled
    assert len(tune(COMP(), readings, bad, design=paper_design).curve) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"truth": np.zeros((400, 100))}, "no image in `truth` is bad"),
        ({"truth": np.ones((400, 100))}, "every image"),
        ({"truth": np.zeros((400, 99))}, r"shape \(400, 100\)"),
        ({"truth": np.full((400, 100), 2)}, "only 0 and 1"),
        ({"grid": {"t": ()}}, "no values for 't'"),
        ({"grid": {"lambda": (1,)}}, "no parameter 'lambda'"),
        ({"grid": {"t": (-1,)}}, "t=-1"),
        ({"min_sensitivity": 0.9, "min_specificity": 0.9}, "not on both"),
        ({"min_sensitivity": 90}, "between 0 and 1"),
    ],
)
def test_wrong_input_is_refused(labelled, paper_design, change, message):
    readings, bad = labelled
    arguments = {"readings": readings, "truth": bad, "design": paper_design, **change}
    with pytest.raises(ValueError, match=message):
        tune(NCOMP(), **arguments)
