"""Bundles that hold editions of themselves: found, checked, and refused where they do not belong together."""

import json
import shutil

import pytest
from altered_bundles import change_config, copy_bundle, put, sign

from poolsieve.bundles import list_bundles, load_bundle, loading, verify_bundle
from poolsieve.bundles.config import CONFIG_FILE, EDITIONS


def refused(folder, *words):
    with pytest.raises(ValueError) as caught:
        load_bundle(folder)
    for word in words:
        assert word in str(caught.value)
    assert str(caught.value) in verify_bundle(folder)


def test_a_bundle_gives_its_editions_under_its_own_name(holder, tiny_bundle):
    bundle = load_bundle(holder)
    assert bundle.config.editions == EDITIONS and tiny_bundle.config.editions == ()
    assert bundle.hash != tiny_bundle.hash  # it stands for the editions too
    int8, binary = map(bundle.edition, EDITIONS)
    assert (int8.config.precision, binary.config.readings) == ("int8", "binary")
    assert {int8.name, binary.name, bundle.name} == {holder.name}
    assert load_bundle(holder / "int8") == int8
    assert verify_bundle(holder) == []
    assert list_bundles([holder.parent]) == [*list_bundles(), holder]
    with pytest.raises(ValueError, match="holds no int8 edition; it has none"):
        tiny_bundle.edition("int8")


def test_an_edition_of_a_bundle_that_comes_with_the_package_is_found_by_name(holder, monkeypatch):
    monkeypatch.setattr(loading, "SHIPPED", holder.parent)
    assert load_bundle(f"{holder.name}/int8").hash == load_bundle(holder).edition("int8").hash
    for name in ("int8", f"{holder.name}/other", f"{holder.name}/int8/int8"):
        with pytest.raises(ValueError, match="there is no such folder"):
            load_bundle(name)


@pytest.mark.parametrize("file", ["front.onnx", "calibration.json", "README.md"])
def test_damage_in_an_edition_is_found_and_leaves_the_bundle_itself_usable(holder, file):
    content = bytearray((holder / "int8" / file).read_bytes())
    content[len(content) // 2] ^= 1
    put(holder / "int8" / file, bytes(content))
    bundle = load_bundle(holder)
    with pytest.raises(ValueError, match="is damaged: its hash") as caught:
        bundle.edition("int8")
    assert str(holder / "int8" / file) in str(caught.value)
    assert verify_bundle(holder) == [str(caught.value)]
    bundle.edition("binary")


def test_an_edition_that_is_not_the_one_that_the_bundle_was_made_with_is_refused(holder):
    bundle = load_bundle(holder)
    put(holder / "int8" / "README.md", b"# Another card")
    sign(holder / "int8", "README.md")
    refused(holder, str(holder / "int8" / CONFIG_FILE), "damaged")
    with pytest.raises(ValueError, match="has changed since the bundle was loaded"):
        bundle.edition("int8")
    shutil.rmtree(holder / "int8")
    refused(holder, str(holder / "int8" / CONFIG_FILE), "missing")


@pytest.mark.parametrize(
    ("edition", "changes", "words"),
    [
        ("int8", {"task": "knives"}, "task is 'knives', but the bundle that holds it has 'discs'"),
        ("int8", {"precision": "fp16"}, "precision is 'fp16', but must be 'int8'"),
        ("binary", {"readings": "counts"}, "readings is 'counts', but must be 'binary'"),
        ("binary", {"resize_mode": "stretch"}, "resize_mode is 'stretch'"),
    ],
)
def test_what_is_no_edition_of_the_bundle_is_refused_though_hashes_are_right(holder, edition, changes, words):
    change_config(holder / edition, **changes)
    sign(holder, f"{edition}/{CONFIG_FILE}")
    refused(holder, f"{edition}/{CONFIG_FILE}", words)


def test_editions_hold_none_themselves(holder):
    copy_bundle(holder / "binary", holder / "int8" / "binary")
    sign(holder / "int8", f"binary/{CONFIG_FILE}")
    sign(holder, f"int8/{CONFIG_FILE}")
    refused(holder, "an edition holds no editions itself")


@pytest.mark.parametrize("name", ["../outside", "int8/../../outside", "int8/front.onnx", "other/config.json"])
@pytest.mark.parametrize("place", ["", "int8"])
def test_a_bundle_names_no_other_files(holder, place, name):
    files = json.loads((holder / place / CONFIG_FILE).read_text())["files"]
    change_config(holder / place, files={**files, name: files["front.onnx"]})
    if place:
        sign(holder, f"{place}/{CONFIG_FILE}")
    refused(holder, f"extra ['{name}']")


def test_a_folder_beside_a_training_run_is_no_edition(tiny_bundle, tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    assert load_bundle(copy_bundle(tiny_bundle.path, run / "int8")).name == "int8"
