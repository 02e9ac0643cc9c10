"""The bundles that come with the package."""

import json

import numpy as np
import pytest
from drawn_firearms.photographs import load_photographs, photograph_view
from typer.testing import CliRunner

from poolsieve import Moderator
from poolsieve.bundles import list_bundles, load_bundle, verify_bundle
from poolsieve.cli.main import app

SHIPPED = [folder.name for folder in list_bundles()]
LARGEST = 24e6


def test_firearms_come_with_the_package():
    assert "firearms" in SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_bundle_is_whole_small_and_can_be_planned_for(name):
    assert verify_bundle(name) == []
    bundle = load_bundle(name)
    assert sum(file.stat().st_size for file in bundle.path.iterdir()) <= LARGEST
    assert bundle.has_recordings
    card = (bundle.path / "README.md").read_text()
    for section in ("## Sources", "## Results", "## Intended use", "## Misuse", "## Licence"):
        assert section in card, section


# In int8 engines round at other places: a score may differ in its second digit.
@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-3), ("int8", 0.1)])
@pytest.mark.parametrize("name", SHIPPED)
def test_the_command_python_and_all_engines_agree_on_photographs_by_changing_plans(
    name, precision, most, tmp_path, capsys
):
    rng = np.random.default_rng(0)
    photographs = list(load_photographs().values())
    for number in range(12):
        photograph_view(photographs[number], 160, rng).save(tmp_path / f"{number:02d}.jpg")
    by_python, other = (
        list(Moderator.load(name, seed=1, engine=engine, precision=precision).moderate(str(tmp_path)))
        for engine in ("openvino", "onnxruntime")
    )
    out = tmp_path.parent / f"{name}-{precision}.jsonl"
    arguments = ["moderate", str(tmp_path), "--bundle", name, "--out", str(out), "--seed", "1"]
    arguments += ["--precision", precision, "--engine", "openvino"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines == [json.loads(json.dumps(verdict.to_json())) for verdict in by_python]
    assert [verdict.status for verdict in by_python] == [verdict.status for verdict in other]
    if precision == "fp32":
        assert [verdict.decided_by for verdict in by_python] == [verdict.decided_by for verdict in other]
    largest = max(abs(one.score - two.score) for one, two in zip(by_python, other, strict=True))
    with capsys.disabled():
        print(
            f"\n{name} in {precision} by {by_python[0].scheme.partition('(')[0]}: largest difference of "
            f"scores {largest:.1e}"
        )
    assert largest < most


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_bundle_gives_verdicts(name):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), dtype=np.uint8)
    verdicts = list(Moderator.load(name, scheme="individual", seed=0).moderate(list(pixels)))
    assert [verdict.status for verdict in verdicts].count("error") == 0
    assert all(0 <= verdict.score <= 1 for verdict in verdicts)
