"""Bundles that hold editions are whole whatever is changed in them, and whenever that is interrupted."""

import numpy as np
import pytest
from altered_bundles import copy_bundle
from PIL import Image
from typer.testing import CliRunner

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.cli.bundles import app
from poolsieve.export import bundle_writing, replan_bundle
from poolsieve.export.bundle_writing import add_edition, add_files
from poolsieve.files import write_atomically


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("labelled")
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        for label in ("0", "1"):
            folder = root / split / label
            folder.mkdir(parents=True)
            for k in range(12 if split == "val" else 2):
                Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    return root


@pytest.fixture
def killed_at(monkeypatch):
    """Lets so many files be written before the process is killed."""

    def at(number):
        left = iter(range(number))

        def counted(path, content):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return write_atomically(path, content)

        monkeypatch.setattr(bundle_writing, "write_atomically", counted)

    yield at
    monkeypatch.undo()


def test_what_is_added_to_an_edition_stands_in_the_bundle(holder):
    before = load_bundle(holder)
    int8, binary = before.edition("int8"), before.edition("binary")
    changed = add_files(int8.path, int8.config, {"README.md": b"# Another"})
    after = load_bundle(holder)
    assert verify_bundle(holder) == []
    assert after.hash != before.hash
    assert after.edition("int8").hash == changed.hash != int8.hash
    assert after.edition("binary").hash == binary.hash


@pytest.mark.parametrize("number", range(4))
def test_a_bundle_is_whole_whenever_a_change_of_its_edition_is_interrupted(holder, killed_at, number):
    config = load_bundle(holder).edition("int8").config
    killed_at(number)
    with pytest.raises(KeyboardInterrupt):
        add_files(holder / "int8", config, {"README.md": b"# Another"})
    assert verify_bundle(holder) == []
    assert load_bundle(holder).config.editions == (("int8", "binary") if number == 0 else ("binary",))


@pytest.mark.parametrize("number", range(2))
def test_a_bundle_is_whole_whenever_a_new_edition_is_interrupted(holder, killed_at, tmp_path, number):
    draft = copy_bundle(holder / "int8", tmp_path / "draft")
    before = load_bundle(draft).hash
    killed_at(number)
    with pytest.raises(KeyboardInterrupt):
        add_edition(holder, "int8", draft)
    assert verify_bundle(holder) == []
    killed_at(9)
    again = draft if draft.exists() else copy_bundle(holder / "int8", tmp_path / "again")
    assert add_edition(holder, "int8", again).hash == before
    assert load_bundle(holder).config.editions == ("int8", "binary")


def test_a_bundle_that_was_recorded_meanwhile_keeps_that(holder, tmp_path):
    """A new edition takes minutes to make."""
    draft = copy_bundle(holder / "int8", tmp_path / "draft")
    add_files(holder, load_bundle(holder).config, {"README.md": b"# Another"})
    add_edition(holder, "int8", draft)
    assert verify_bundle(holder) == []
    assert (holder / "README.md").read_bytes() == b"# Another"


def test_the_commands_record_replan_show_and_verify_editions_too(holder, data, monkeypatch):
    # The edition's graphs are in float, so that any processor runs them.
    monkeypatch.setattr("poolsieve.engines.registry.ensure_precision", lambda *_: None)
    # Torch knows no backbone of this name.
    monkeypatch.setattr("poolsieve.engines.agreement.list_engines", lambda: ["openvino", "onnxruntime"])
    recorded = run("record", holder, data, "--engine", "openvino", "--threads", "1")
    assert recorded.exit_code == 0, recorded.exception
    bundle = load_bundle(holder)
    parts = [bundle, bundle.edition("int8"), bundle.edition("binary")]
    assert all(part.has_recordings for part in parts)
    assert f"bundles show {holder / 'int8'}" in recorded.output
    verified = run("verify", holder, "--run")
    assert verified.exit_code == 0, verified.exception
    for name in (holder, holder / "int8", holder / "binary"):
        assert f"{name}: largest difference" in verified.output

    broken = parts[1].read("plans.json").replace(b'"individual"', b'"unheard-of"')
    assert broken != parts[1].read("plans.json")
    add_files(holder / "int8", parts[1].config, {"plans.json": broken})
    assert str(holder / "int8" / "plans.json") in str(run("verify", holder).exception)
    assert replan_bundle(holder).edition("int8").read("plans.json") == parts[1].read("plans.json")
    assert run("verify", holder).exit_code == 0


def test_the_list_counts_editions_and_names_a_broken_one(holder):
    whole = run("list", holder.parent)
    assert whole.exit_code == 0
    (holder / "int8" / "config.json").unlink()
    listed = run("list", holder.parent)
    assert "int8 is no bundle" in str(listed.exception)
