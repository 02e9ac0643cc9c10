import numpy as np
import pytest

from poolsieve.decoders import COMP, CountNoise, LatentNoise
from poolsieve.designs import balanced_design
from poolsieve.evaluation import PAPER_PREVALENCES, Dorfman, OneShot, parse_method, simulate
from poolsieve.evaluation.simulate import draw_bad_images

PERFECT = {"none": CountNoise.none(8)}


def rows_of(methods, noises, **options):
    return {(row.prevalence, row.method): row for row in simulate(methods, noises, **options)}


@pytest.fixture(scope="module")
def study_table(paper_design, study_noise):
    """The study's setting in small: 1,000 chunks at each of the paper's prevalences."""
    names = ("comp", "ncomp:t=2", "classo", "mip", "bp-hard", "bp")
    return rows_of(
        [parse_method(name, paper_design) for name in names],
        {"study": study_noise},
        chunks=1000,
        tuning_chunks=300,
    )


def test_the_paper_s_prevalences_are_the_default():
    assert PAPER_PREVALENCES == (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1)


@pytest.mark.parametrize("prevalence", PAPER_PREVALENCES[:-1])
def test_mip_finds_99_percent(study_table, prevalence):
    assert study_table[prevalence, "mip"].detection.sensitivity.value >= 0.99


def test_specificity_of_binary_decoders_falls_steeply(study_table):
    for method, floor, ceiling in (("comp", 0.999, 0.95), ("ncomp (t=2)", 0.995, 0.75)):
        assert study_table[0.005, method].detection.specificity.value > floor
        assert study_table[0.1, method].detection.specificity.value < ceiling


def test_soft_belief_propagation_is_best_at_every_prevalence(study_table):
    for (prevalence, method), row in study_table.items():
        best = study_table[prevalence, "bp-soft"].detection
        product = row.detection.sensitivity.value * row.detection.specificity.value
        assert best.sensitivity.value * best.specificity.value >= product - 5e-4, (prevalence, method)


def test_classo_lies_between_mip_and_the_binary_decoders_at_high_prevalence(study_table):
    names = ("comp", "classo", "mip")
    comp, classo, mip = (study_table[0.1, name].detection.specificity.value for name in names)
    assert comp < classo < mip


def test_one_shot_uses_m_over_n_tests(study_table):
    assert {row.tests_per_image for row in study_table.values()} == {0.5}


@pytest.mark.parametrize("pool_size", [4, 8, 10])
@pytest.mark.parametrize("prevalence", [0.01, 0.1])
def test_dorfman_s_expected_number_of_tests(pool_size, prevalence):
    """1/r + 1 − (1 − p)^r for each image, without errors."""
    method = Dorfman(images=40 * pool_size, pool_size=pool_size)
    noise = {"none": CountNoise.none(pool_size)}
    (row,) = simulate([method], noise, prevalences=[prevalence], chunks=2000)
    expected = 1 / pool_size + 1 - (1 - prevalence) ** pool_size
    assert row.tests_per_image == pytest.approx(expected, rel=0.01)
    assert row.detection.sensitivity.value == row.detection.specificity.value == 1.0


def test_dorfman_s_second_round_errs_as_told():
    method = Dorfman(images=80, pool_size=8, sensitivity=0.9, specificity=0.8)
    (row,) = simulate([method], PERFECT, prevalences=[0.5], chunks=2000)
    assert row.detection.sensitivity.value == pytest.approx(0.9, abs=0.01)
    assert row.detection.specificity.value == pytest.approx(0.8, abs=0.01)


def test_the_same_seed_gives_the_same_rows(paper_design, study_noise):
    def run(seed):
        methods = [parse_method("bp", paper_design), Dorfman()]
        rows = simulate(
            methods, {"study": study_noise}, prevalences=[0.02], chunks=50, tuning_chunks=20, seed=seed
        )
        return [{**row.as_record(), "chunks_per_second": 0} for row in rows]

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_correlated_errors_leave_comp_more_images_whole(paper_design, study_noise):
    def missed(correlation):
        (row,) = simulate(
            [OneShot(COMP(), paper_design)],
            {"study": study_noise},
            prevalences=[0.01],
            chunks=4000,
            correlation=correlation,
        )
        return 1 - row.detection.sensitivity.value

    # COMP misses an image if any of its pools does: errors that come together leave more images whole.
    assert missed(0.95) < 0.7 * missed(0.0)


def test_several_noises_and_designs_are_crossed(paper_design, study_noise):
    other = balanced_design(64, 8, 2, seed=0)
    methods = [OneShot(COMP(), paper_design), OneShot(COMP(), other)]
    rows = list(simulate(methods, {"study": study_noise, **PERFECT}, prevalences=[0.01, 0.05], chunks=20))
    assert len(rows) == 8
    assert {(row.noise, row.design) for row in rows} == {
        (noise, design) for noise in ("study", "none") for design in ("50×100", "16×64")
    }


def test_designs_of_one_shape_keep_apart(paper_design):
    other = balanced_design(100, 8, 4, seed=1)
    methods = [OneShot(COMP(), paper_design), OneShot(COMP(), other)]
    names = {row.design for row in simulate(methods, PERFECT, prevalences=[0.01], chunks=5)}
    assert names == {f"50×100 {design.fingerprint[:6]}" for design in (paper_design, other)}


def test_smaller_pools_see_the_same_noise(study_noise):
    rows = list(simulate([Dorfman(pool_size=4)], {"study": study_noise}, prevalences=[0.01], chunks=20))
    assert rows[0].method == "dorfman-4"
    matrix = CountNoise(study_noise.confusion)
    assert list(simulate([Dorfman(pool_size=4)], {"m": matrix}, prevalences=[0.01], chunks=20))


def test_without_bad_images_sensitivity_is_undefined(paper_design):
    (row,) = simulate([OneShot(COMP(), paper_design)], PERFECT, prevalences=[0.0], chunks=5)
    assert row.detection.sensitivity.total == 0 and row.detection.specificity.value == 1.0


def test_mixtures_hold_exactly_their_share_of_bad_images():
    bad = draw_bad_images(np.random.default_rng(0), 100, 100, 0.01)
    assert bad.sum() == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope", "no decoder is named 'nope'"),
        ("mip:penalty", "NAME:parameter=value"),
        ("mip:lambda=1", "no parameter 'lambda'"),
        ("mip:penalty=-1", "penalty=-1"),
        ("dorfman-x", "write dorfman-8"),
        ("comp-soft", "reads counts alone"),
        ("mip:penalty=1,penalty=2", "gives penalty twice"),
    ],
)
def test_unknown_methods_are_refused(paper_design, text, message):
    with pytest.raises(ValueError, match=message):
        parse_method(text, paper_design)


def test_fixed_parameters_are_not_tuned(paper_design, study_noise):
    method = parse_method("ncomp:t=1", paper_design)
    (row,) = simulate([method], {"study": study_noise}, prevalences=[0.02], chunks=20, tuning_chunks=50)
    assert row.method == "ncomp (t=1)" and row.parameters == {"t": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prevalences": [1.5]}, "prevalence 1.5"),
        ({"prevalences": []}, "one prevalence"),
        ({"chunks": 0}, "chunks=0"),
        ({"tuning_chunks": -1}, "tuning_chunks=-1"),
        ({"correlation": 2}, "correlation=2"),
    ],
)
def test_wrong_options_are_refused(paper_design, options, message):
    with pytest.raises(ValueError, match=message):
        list(simulate([OneShot(COMP(), paper_design)], PERFECT, **options))


def test_a_noise_for_smaller_pools_is_refused(paper_design):
    with pytest.raises(ValueError, match="give a noise for the largest pool"):
        list(simulate([OneShot(COMP(), paper_design)], {"x": LatentNoise.from_accuracy((0.95, 0.9), 4)}))
