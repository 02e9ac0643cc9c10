"""`poolsieve bundles`: what it prints, writes and refuses."""

import pytest
from typer.testing import CliRunner

from poolsieve.bundles import load_bundle
from poolsieve.cli.bundles import app


@pytest.fixture(scope="module")
def training_run(tmp_path_factory):
    from made_bundles import named_backbone, write_run

    run = tmp_path_factory.mktemp("bundles") / "run"
    return write_run(run, named_backbone("efficientnet-lite0"), pool_sizes=(4,))


@pytest.fixture(scope="module")
def bundle(training_run):
    out = training_run.parent / "discs"
    result = run("export", training_run, out, "--precision", "fp16")
    assert result.exit_code == 0, result.output
    assert "efficientnet-lite0 at 64 px" in result.output
    assert load_bundle(out).config.precision == "fp16"
    return out


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_show_describes_a_bundle(bundle):
    result = run("show", bundle)
    assert result.exit_code == 0
    assert load_bundle(bundle).hash in result.output
    assert "discs (classification)" in result.output
    assert "validation pools counted exactly" in result.output
    assert f"bundles show {bundle} --card" in result.output
    card = run("show", bundle, "--card")
    assert card.exit_code == 0
    assert card.output.rstrip() == (bundle / "README.md").read_text().rstrip()


def test_list_finds_bundles_in_a_folder_and_names_broken_ones(bundle, tmp_path):
    result = run("list", bundle.parent)
    assert result.exit_code == 0
    assert str(bundle) in result.output.replace("\n", "")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    (tmp_path / "broken" / "front.onnx").write_text("")
    result = run("list", tmp_path)
    assert isinstance(result.exception, ValueError)
    assert "format_version is missing" in str(result.exception)


def test_verify_tells_a_whole_bundle_from_a_damaged_one(bundle, tmp_path):
    from made_bundles import copy_bundle, put

    result = run("verify", bundle)
    assert result.exit_code == 0
    assert "whole" in result.output
    damaged = copy_bundle(bundle, tmp_path / "damaged")
    put(damaged / "head.onnx", b"")
    put(damaged / "README.md", b"")
    result = run("verify", bundle, damaged)
    assert isinstance(result.exception, ValueError)
    lines = [str(result.exception), *result.exception.__notes__]
    assert any("head.onnx is damaged" in line for line in lines)
    assert "README.md is damaged" in str(result.exception)


def test_verify_can_run_the_networks_on_every_engine(bundle):
    result = run("verify", bundle, "--run")
    assert result.exit_code == 0, result.exception
    assert "largest difference of logits from openvino: onnxruntime" in result.output


def test_what_is_no_run_is_refused(tmp_path):
    result = run("export", tmp_path, tmp_path / "out")
    assert isinstance(result.exception, ValueError)
    assert not (tmp_path / "out").exists()
