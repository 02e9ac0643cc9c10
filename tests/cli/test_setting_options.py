import pytest
import typer
from typer.testing import CliRunner

from poolsieve.cli.setting_options import given_settings, setting_options, with_setting_options
from poolsieve.training.recipes import make_settings
from poolsieve.training.settings import TrainingSettings


@pytest.fixture
def typed():
    """What settings a command line makes."""

    def call(*arguments):
        found = []

        @with_setting_options
        def command(recipe: str = "default", **given):
            found.append(make_settings(recipe, **given_settings(given)))

        app = typer.Typer()
        app.command()(command)
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return found[0]

    return call


def test_nothing_typed_changes_nothing(typed):
    assert typed() == TrainingSettings()
    assert typed("--recipe", "paper") == make_settings("paper")


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        (["--pool-size", 4, "--pool-size", 8], {"pool_sizes": (4, 8)}),
        (
            ["--share", 3, "--share", 2, "--share", 1, "--pool-size", 2],
            {"shares": (3, 2, 1), "pool_sizes": (2,)},
        ),
        (["--tallies"], {"tallies": True}),
        (["--no-tallies"], {"tallies": False}),
        (["--stretch"], {"resize_mode": "stretch"}),
        (["--pad"], {"resize_mode": "pad"}),
        (["--tune-from", "block3"], {"tune_from": "block3", "front": "tuned"}),
        (["--learning-rate", 0.01], {"optimization": {"learning_rate": 0.01}}),
        (["--reading", "density"], {"outliers": {"reading": "density"}}),
        (["--glance-stop", "block13"], {"glance": {"stop": "block13"}}),
        (["--fresh-views", 0], {"fresh_views": 0}),
        (["--weights", "w.pth"], {"weights": "w.pth"}),
    ],
)
def test_what_is_typed_is_what_is_set(typed, arguments, changes):
    assert typed(*arguments) == make_settings(**changes)


def test_no_two_settings_have_one_option():
    names = [name for option in setting_options() for name in option.name.split("/")]
    assert len(set(names)) == len(names)
    assert {"--epochs", "--glance-epochs", "--pad", "--no-compile"} <= set(names)
