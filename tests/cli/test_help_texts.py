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


def test_the_help_of_train_states_the_defaults_of_its_plan():
    from poolsieve.training.plan import DEFAULT_FRONT_EPOCHS, TrainingPlan

    plan = TrainingPlan()
    command = typer.main.get_command(app).commands["train"]
    helps = {parameter.name: parameter.help for parameter in command.params if parameter.name != "help"}
    expected = {
        "pool_size": plan.pool_sizes[0],
        "merge": plan.merge,
        "front": plan.front,
        "front_epochs": DEFAULT_FRONT_EPOCHS,
        "gate_width": plan.gate_width,
        "individual_epochs": plan.individual_epochs,
        "epochs": plan.epochs,
        "pools_per_epoch": plan.pools_per_epoch,
        "batch_pools": plan.batch_pools,
        "batch_images": plan.batch_images,
        "count_smoothing": f"{plan.count_smoothing:g}",
        "prevalence": plan.prevalence,
        "select_by": plan.select_by,
        "learning_rate": plan.optimization.learning_rate,
        "views": plan.views,
        "validation_pools": plan.validation_pools,
        "test_pools": plan.test_pools,
    }
    for name, value in expected.items():
        assert re.search(rf"\[default: {re.escape(str(value))}[;\]]", helps[name]), name
