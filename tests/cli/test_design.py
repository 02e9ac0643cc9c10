"""`poolsieve design`: what it prints, writes and refuses."""

import re

import pytest
import typer
from typer.testing import CliRunner

from poolsieve.cli.design import design
from poolsieve.designs import Pooling, PoolingDesign, balanced_design, disjoint_design, grid_design

app = typer.Typer()
app.command()(design)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_the_papers_matrix_is_described_drawn_and_written(tmp_path):
    out, figure = tmp_path / "design.npz", tmp_path / "figures" / "design.png"
    result = run("-n", 100, "-r", 8, "-c", 4, "--seed", 5, "--out", out, "--figure", figure, "--bad", 3)
    assert result.exit_code == 0
    assert "50 × 100" in result.output
    assert "two pools share at most 1 image" in result.output
    assert "fewest yes/no tests for k = 3" in result.output
    assert re.search(
        r"smallest sets with equal counts +│ 4: images \d+, \d+, \d+, \d+ count as", result.output
    )
    assert any("⠀" <= character <= "⣿" for character in result.output)
    assert f"wrote {out}" in result.output
    assert PoolingDesign.load(out) == balanced_design(100, 8, 4, seed=5)
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--kind", "disjoint", "-n", 10, "-r", 4], disjoint_design(10, 4, 0)),
        (["--kind", "grid", "--rows", 3, "--columns", 4], grid_design(3, 4)),
    ],
)
def test_kinds_are_those_of_the_library(tmp_path, arguments, expected):
    out = tmp_path / "design.npz"
    result = run(*arguments, "--out", out, "--no-picture")
    assert result.exit_code == 0
    assert Pooling.load(out) == expected
    assert "⠀" not in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kind", "random", "-n", 30, "--pools", 10, "--probability", 0.2],
        ["--kind", "doubly-regular", "-n", 20, "-r", 5, "-c", 4],
    ],
)
def test_other_kinds_are_made(arguments):
    assert run(*arguments).exit_code == 0


def test_a_design_in_a_file_is_checked_and_described(tmp_path):
    path = balanced_design(100, 8, 4).save(tmp_path / "matrix.txt")
    result = run("--load", path)
    assert result.exit_code == 0
    assert "50 × 100" in result.output


def test_a_file_with_a_two_by_two_block_is_refused_unless_any_matrix_is_asked_for(tmp_path):
    path = tmp_path / "block.txt"
    path.write_text("1100\n0011\n1100\n0011\n")
    refused = run("--load", path)
    assert isinstance(refused.exception, ValueError)
    assert "block.txt: pools 0 and 2 share 2 images (0, 1)" in str(refused.exception)
    assert "--any-matrix" in str(refused.exception)
    described = run("--load", path, "--any-matrix")
    assert described.exit_code == 0
    assert "two pools share at most 2 images" in described.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--kind balanced needs --images, --pool-size, --pools-per-image"),
        (["-n", 100, "-r", 8], "needs --pools-per-image"),
        (
            ["--kind", "grid", "--rows", 3, "--columns", 3, "-n", 9],
            "takes no --images, only --rows, --columns",
        ),
        (["--load", "x.npz", "-n", 9], "--load describes the design in a file, so it takes no --images"),
        (["-n", 100, "-r", 7, "-c", 4], "m·r = n·c fails"),
        (["-n", 100, "-r", 8, "-c", 4, "--bad", 101], "1 to 100"),
    ],
)
def test_wrong_input_is_a_value_error_that_says_what(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)


def test_a_missing_file_is_an_os_error(tmp_path):
    assert isinstance(run("--load", tmp_path / "none.npz").exception, OSError)


def test_help_explains_every_option():
    result = run("--help")
    assert result.exit_code == 0
    command = typer.main.get_command(app)
    for parameter in command.params:
        assert getattr(parameter, "help", None), parameter.name
