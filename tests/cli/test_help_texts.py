import re

import pytest
import typer
from typer.testing import CliRunner

from poolsieve.cli.main import app

COMMANDS = ["train", "evaluate", "moderate", "plan"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_defaults_that_a_help_text_names_are_shown(name):
    """Rich takes an unescaped `[default: 8]` for markup and drops it without a word."""
    command = typer.main.get_command(app).commands[name]
    told = [
        re.search(r"\[default: [^]]*\]", parameter.help)
        for parameter in command.params
        if "[default: " in (getattr(parameter, "help", None) or "")
    ]
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "500", "TERMINAL_WIDTH": "500"}).output
    plain = " ".join(shown.replace("│", " ").split())
    assert told
    for default in told:
        assert default.group() in plain


def test_the_help_of_train_states_the_defaults_of_its_settings():
    from poolsieve.training.recipes import DEFAULT_FRONT_EPOCHS
    from poolsieve.training.settings import TrainingSettings

    settings = TrainingSettings()
    command = typer.main.get_command(app).commands["train"]
    helps = {parameter.opts[0]: getattr(parameter, "help", "") for parameter in command.params}
    expected = {
        "--pool-size": settings.pool_sizes[0],
        "--merge": settings.merge,
        "--front": settings.front,
        "--front-epochs": f"{DEFAULT_FRONT_EPOCHS} if the front learns",
        "--gate-width": settings.gate_width,
        "--individual-epochs": settings.individual_epochs,
        "--epochs": settings.epochs,
        "--pools-per-epoch": settings.pools_per_epoch,
        "--batch-pools": settings.batch_pools,
        "--batch-images": settings.batch_images,
        "--count-smoothing": f"{settings.count_smoothing:g}",
        "--prevalence": settings.prevalence,
        "--select-by": settings.select_by,
        "--learning-rate": settings.optimization.learning_rate,
        "--glance-epochs": 8,
        "--reading": "combined",
        "--tallies": "no-tallies",
        "--views": settings.views,
        "--fresh-views": settings.fresh_views,
        "--validation-pools": settings.validation_pools,
        "--test-pools": settings.test_pools,
    }
    for name, value in expected.items():
        assert re.search(rf"\[default: {re.escape(str(value))}[;\]]", helps[name]), name
    assert "[default: 32; 8 with --recipe paper; at least 2]" in helps["--batch-pools"]
    assert "[default: combined; density with --recipe paper]" in helps["--reading"]
    assert "above 0 and below 1]" in helps["--prevalence"]
