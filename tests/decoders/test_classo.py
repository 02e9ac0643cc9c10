"""CLasso against an independent conic solver."""

import cvxpy as cp
import numpy as np
import pytest

from poolsieve.decoders import CLasso, tune
from poolsieve.designs import balanced_design


def reference_solver(design):
    estimate = cp.Variable(design.images)
    reading = cp.Parameter(design.pool_count)
    penalty = cp.Parameter(nonneg=True)
    residual = reading - design.sparse.astype(float) @ estimate
    objective = cp.Minimize(cp.sum_squares(residual) + penalty * cp.sum(estimate))
    problem = cp.Problem(objective, [estimate >= 0, estimate <= 1])

    def solve(y, lam):
        reading.value, penalty.value = y.astype(float), lam
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        return estimate.value, problem.value

    return solve


def minimiser_is_unique(x, y, lam, design):
    """No direction leaves both the fit and the bounds' multipliers as they are."""
    phi = design.dense().astype(float)
    gradient = lam - 2 * phi.T @ (y - phi @ x)
    movable = abs(gradient) < 1e-5
    return np.linalg.matrix_rank(phi[:, movable]) == movable.sum()


@pytest.mark.parametrize(("images", "pool_size", "pools_per_image"), [(100, 8, 4), (60, 6, 3), (64, 8, 2)])
@pytest.mark.parametrize("penalty", [0.01, 0.5, 2.0])
def test_agrees_with_clarabel(images, pool_size, pools_per_image, penalty):
    design = balanced_design(images, pool_size, pools_per_image, seed=3)
    solve = reference_solver(design)
    generator = np.random.default_rng(5)
    unique = 0
    prevalences = np.repeat([0.001, 0.01, 0.05, 0.1], 6)
    for prevalence in prevalences:
        counts = design.counts(generator.random(images) < prevalence)
        error = generator.integers(-1, 2, counts.shape) * (generator.random(counts.shape) < 0.1)
        counts = np.clip(counts + error, 0, pool_size)
        decoding = CLasso(penalty, threshold=0.3).decode(counts, design)
        expected, value = solve(counts, penalty)
        assert decoding.solved.all()
        assert decoding.objective[0] == pytest.approx(value, abs=1e-3)
        assert decoding.objective[0] <= value + 1e-6
        if minimiser_is_unique(decoding.scores[0], counts, penalty, design):
            unique += 1
            np.testing.assert_allclose(decoding.scores[0], expected, atol=1e-3)
            away = abs(expected - 0.3) > 1e-4
            assert np.array_equal(decoding.flags[0][away], (expected > 0.3)[away])
    assert unique >= len(prevalences) / 3  # the more pools an image has, the more often


def test_satisfies_the_optimality_conditions_on_many_chunks(paper_design, study_noise):
    generator = np.random.default_rng(1)
    readings = study_noise.sample(generator.random((2000, 100)) < 0.1, paper_design, generator)
    x = CLasso(0.7).decode(readings, paper_design).scores
    residual = readings.counts - x @ paper_design.sparse.T
    gradient = 0.7 - 2 * residual @ paper_design.sparse
    assert ((x >= 0) & (x <= 1)).all()
    assert gradient[x <= 0].min() > -1e-4
    assert gradient[x >= 1].max() < 1e-4
    assert abs(gradient[(x > 0) & (x < 1)]).max() < 1e-4


def test_a_large_penalty_clears_everything_and_none_fits_exact_counts(paper_design):
    bad = np.random.default_rng(0).random((50, 100)) < 0.02
    counts = paper_design.counts(bad)
    assert not CLasso(penalty=1000.0).decode(counts, paper_design).scores.any()
    assert np.array_equal(CLasso(penalty=0.0, threshold=0.5).decode(counts, paper_design).flags, bad)


def test_tuning_scans_thresholds_like_decoding_afresh(paper_design, study_noise):
    generator = np.random.default_rng(2)
    bad = generator.random((300, 100)) < 0.05
    readings = study_noise.sample(bad, paper_design, generator)
    tuned = tune(
        CLasso(), readings, bad, {"penalty": (0.3, 1.0), "threshold": (0.2, 0.5)}, design=paper_design
    )
    assert len(tuned.curve) == 4
    for point in tuned.curve:
        flags = CLasso(**point.parameters).decode(readings, paper_design).flags
        assert point.sensitivity == (flags & bad).sum() / bad.sum()
