"""A list of stages that is put into the table is a scheme everywhere, without another line."""

from dataclasses import dataclass

import numpy as np
import pytest
from noisy import NoisyEngine, noisy_pixels
from planted import COST, planted_bundle
from typer.testing import CliRunner

from poolsieve.cli.main import app
from poolsieve.evaluation.competitors import TunedScheme, choose_competitors
from poolsieve.export.recording import record_readings
from poolsieve.planning.candidates import all_candidates
from poolsieve.planning.choosing import choose_scheme
from poolsieve.schemes import (
    DisjointPools,
    Glance,
    Head,
    LikelihoodModel,
    Test,
    check_scheme,
    list_schemes,
    make_scheme,
    register_stage,
    stages,
)
from poolsieve.schemes.scheme import SCHEMES


@pytest.fixture
def careful(monkeypatch):
    """A stage and a list of three looks that poolsieve does not come with."""
    monkeypatch.setattr(stages, "_REGISTRY", dict(stages._REGISTRY))

    @register_stage("careful_head")
    @dataclass(frozen=True)
    class CarefulHead(Head):
        """A head that clears less.

        Attributes:
            caution: How many times likelier than it says it takes images to be bad.
        """

        caution: float = 2.0

        def log_likelihoods(self, chunk, images):
            return super().log_likelihoods(chunk, images) + np.log((1, self.caution))

    monkeypatch.setitem(SCHEMES, "careful", (Glance(), CarefulHead(), Test()))


class Glancing(NoisyEngine):
    def glance(self, images):
        bad = images[:, 0, 0, 0].astype(np.float32) / 255
        return (6 * (bad - 0.5) + images[:, 2, 2, 2].astype(np.float32) / 64 - 2).astype(np.float32)


def test_it_keeps_the_contract_and_moderates_by_its_name(careful):
    scheme, _ = choose_scheme(planted_bundle(), "careful", None, None, {"caution": 3.0})
    assert [stage.name for stage in scheme.stages] == ["glance", "careful_head", "test"]
    assert scheme.stages[1].caution == 3
    check_scheme(scheme)


def test_it_is_a_candidate_of_the_planner_with_the_bounds_of_both_looks(careful):
    bundle, engine = planted_bundle(), Glancing()
    truth = np.random.default_rng(3).permutation(np.arange(300) < 80)
    pixels = noisy_pixels(truth, 4)
    recordings = record_readings(
        *(engine, LikelihoodModel(bundle.calibration), engine.front(pixels).features, truth, (8,)),
        gated=True,
        glanced_at=pixels,
    )
    found, _ = all_candidates(recordings, 0.02, (8,), COST, gated=True)
    mine = [one for one in found if one.scheme.name == "careful"]
    assert [one.parameters["glance_clear_below"] for one in mine] == [pytest.approx(0.1 * 0.02)]
    for one in mine:
        parameters = one.parameters | one.settings(float(one.bounds[2]))
        assert "careful_head_clear_below" in parameters
        assert make_scheme("careful", (8,), **parameters).stages[1].clear_below > 0


def test_it_is_a_choice_of_moderate_with_options_and_their_help(careful):
    shown = CliRunner().invoke(app, ["moderate", "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    plain = " ".join(shown.output.replace("│", " ").split())
    assert "|careful|" in plain
    assert "--caution <float> careful: how many times likelier than it says" in plain
    assert "--glance-clear-below <float> early_exit, careful: images whose posterior by then is" in plain


def test_it_is_a_choice_of_serve(careful):
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    assert "|careful|" in shown.output
    for name in list_schemes():
        assert name in shown.output
    refused = CliRunner().invoke(app, ["serve", "--bundle", "firearms", "--scheme", "careless"])
    assert refused.exit_code == 2 and "'careless' is not one of 'auto'" in refused.output


def test_a_scheme_whose_head_gives_priors_can_do_without_it(careful, monkeypatch):
    monkeypatch.setitem(SCHEMES, "rounds", (Head(clear_below=0), DisjointPools(), Test()))
    shown = CliRunner().invoke(app, ["moderate", "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    plain = " ".join(shown.output.replace("│", " ").split())
    assert "--no-head <bool> adaptive, rounds: the same prior for every image." in plain


def test_it_is_a_method_of_evaluate_that_is_tuned(careful):
    method = choose_competitors(["careful"])[1]
    assert isinstance(method, TunedScheme) and method.glances
    assert set(method.grid) == {"glance_clear_below", "careful_head_clear_below"}
