import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from poolsieve.images import load_dataset
from poolsieve.images.datasets import SPLITS


def draw(file, seed):
    file.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(file)
    return file


@pytest.fixture
def tree(tmp_path):
    """Two images of each class in each split."""
    root = tmp_path / "photos"
    seed = 0
    for split in SPLITS:
        for name in ("clear", "flagged"):
            for i in range(2):
                draw(root / split / name / f"{i}.png", seed)
                seed += 1
    return root


@pytest.fixture
def table(tree):
    """The same images as a CSV file, with a column that is none of ours."""
    lines = ["file,label,split,source"]
    for split in SPLITS:
        for label, name in enumerate(("clear", "flagged")):
            lines += [f"photos/{split}/{name}/{i}.png,{label},{split},somewhere" for i in range(2)]
    file = tree.parent / "data.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def change(table, old, new):
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new, 1))


def test_folder_and_csv_give_the_same_data(tree, table):
    folder, csv = load_dataset(tree), load_dataset(table)
    assert len(folder) == 12
    described = [
        {(digest, int(label), str(split)) for digest, label, split in zip(*columns, strict=True)}
        for columns in ((d.digests, d.labels, d.splits) for d in (folder, csv))
    ]
    assert described[0] == described[1]
    assert folder.describe() == "flagged/ordinary images: train 2/2, val 2/2, test 2/2"
    assert not folder.messages()


@pytest.mark.parametrize("names", [("0", "1"), ("ordinary", "bad"), ("Clear", "Flagged")])
def test_class_folders_may_have_several_names(tree, names):
    for split in SPLITS:
        for old, new in zip(("clear", "flagged"), names, strict=True):
            (tree / split / old).rename(tree / split / f"x{new}")
            (tree / split / f"x{new}").rename(tree / split / new)
    assert load_dataset(tree).labels.sum() == 6


@pytest.fixture
def named(tree):
    """The same images in folders called knife and Gun, and ok."""
    for split in SPLITS:
        (tree / split / "clear").rename(tree / split / "ok")
        (tree / split / "flagged").rename(tree / split / "knife")
        (tree / split / "Gun").mkdir()
        (tree / split / "knife" / "1.png").rename(tree / split / "Gun" / "1.png")
    return tree


def test_class_folders_may_be_named_by_the_caller(named):
    dataset = load_dataset(named, flagged=("knife", "Gun"), clear=("ok",))
    assert dataset.describe() == "flagged/ordinary images: train 2/2, val 2/2, test 2/2"
    assert {file.parent.name for file, label in zip(dataset.files, dataset.labels, strict=True) if label} == {
        "knife",
        "Gun",
    }
    swapped = load_dataset(named, flagged=("ok",), clear=("knife", "Gun"))
    assert dict(zip(swapped.digests, 1 - swapped.labels, strict=True)) == dict(
        zip(dataset.digests, dataset.labels, strict=True)
    )


def test_a_name_given_for_one_class_takes_the_usual_name_of_the_other(tmp_path):
    for i in range(300):
        draw(tmp_path / ("1" if i % 2 else "0") / f"{i}.png", i)
    assert load_dataset(tmp_path, flagged=("0",), clear=("1",)).labels[:150].all()
    (tmp_path / "1").rename(tmp_path / "knife")
    assert load_dataset(tmp_path, flagged=("knife",)).labels.sum() == 150


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"flagged": ("sword",), "clear": ("ok",)}, "no folder 'sword'; its folders are Gun, knife, ok"),
        (
            {"flagged": ("knife",), "clear": ("ok",)},
            "Gun is unknown; call it ok for label 0, knife for label 1",
        ),
        ({"flagged": ("knife", "Gun")}, r"ok is unknown; call it clear \(or ordinary, 0\) for label 0"),
        ({"flagged": ("ok",), "clear": ("ok",)}, "'ok' cannot be both"),
    ],
)
def test_names_that_do_not_fit_the_folders_are_explained(named, names, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(named, **names)


def test_a_csv_has_no_class_folders_to_name(table):
    with pytest.raises(ValueError, match="is a CSV file, whose column label"):
        load_dataset(table, flagged=("knife",))


def test_sizes_are_those_of_upright_images(tree):
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.new("RGB", (30, 20)).save(tree / "train" / "clear" / "0.png", exif=exif)
    dataset = load_dataset(tree)
    sizes = {file: tuple(size) for file, size in zip(dataset.files, dataset.sizes.tolist(), strict=True)}
    assert sizes.pop(tree / "train" / "clear" / "0.png") == (20, 30)
    assert set(sizes.values()) == {(8, 8)}


def test_an_unknown_class_folder_is_named(tree):
    (tree / "train" / "clear").rename(tree / "train" / "cats")
    with pytest.raises(ValueError, match="cats is unknown; call it clear"):
        load_dataset(tree)


def test_without_splits_content_decides(tmp_path):
    for i in range(300):
        draw(tmp_path / ("clear" if i % 2 else "flagged") / f"{i}.png", i)
    for i in range(40):  # equal files under other names, before and after in order
        source = tmp_path / ("clear" if i % 2 else "flagged") / f"{i}.png"
        shutil.copy(source, source.with_name(f"copy-{i}.png"))
    dataset = load_dataset(tmp_path)
    split_of = {}
    for digest, split in zip(dataset.digests, dataset.splits, strict=True):
        assert split_of.setdefault(digest, split) == split
    assert not dataset.duplicates.straddling
    shares = Counter(split_of.values())
    assert 180 <= shares["train"] <= 240
    assert min(shares["val"], shares["test"]) >= 25
    # Images that come later move none of those already there.
    draw(tmp_path / "clear" / "later.png", 1000)
    later = dict(zip(*(lambda d: (d.digests, d.splits))(load_dataset(tmp_path)), strict=True))
    assert all(later[digest] == split for digest, split in split_of.items())


def test_csv_without_split_column_is_split_by_content(tmp_path):
    files = [draw(tmp_path / f"{i}.png", i) for i in range(100)]
    table = tmp_path / "data.csv"
    table.write_text("file,label\n" + "".join(f"{f.name},{i % 2}\n" for i, f in enumerate(files)))
    assert set(load_dataset(table).splits) == set(SPLITS)


def test_duplicates_across_splits_and_labels_are_reported(tree):
    shutil.copy(tree / "train" / "flagged" / "0.png", tree / "test" / "flagged" / "same.png")
    shutil.copy(tree / "val" / "flagged" / "0.png", tree / "val" / "clear" / "same.png")
    dataset = load_dataset(tree)
    assert len(dataset.duplicates.straddling) == 1
    assert len(dataset.duplicates.contradicting) == 1
    straddling, contradicting = dataset.messages()
    assert straddling.startswith("1 image stand in more than one split")
    assert "same.png" in straddling
    assert contradicting.startswith("1 image are labelled both 0 and 1")


@pytest.mark.parametrize("value", ["2", "", "bad", "1.0"])
def test_other_labels_are_refused_with_line_and_value(table, value):
    change(table, "photos/train/flagged/0.png,1,", f"photos/train/flagged/0.png,{value},")
    with pytest.raises(ValueError, match=rf"line 4: label is '{value}'"):
        load_dataset(table)


def test_an_unknown_split_is_refused(table):
    change(table, "1.png,1,val", "1.png,1,holdout")
    with pytest.raises(ValueError, match="line 9: split is 'holdout'; give train, val or test"):
        load_dataset(table)


def test_missing_columns_are_named(table):
    change(table, "file,label", "path,label")
    with pytest.raises(ValueError, match="no column 'file'"):
        load_dataset(table)


def test_missing_files_are_counted_and_named(tree, table):
    (tree / "val" / "clear" / "1.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 12 files .* do not exist, the first is .*1\.png"):
        load_dataset(table)


def test_a_missing_source_says_what_to_give(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder of class folders or a CSV"):
        load_dataset(tmp_path / "nothing")


def test_a_class_without_images_is_named(tree):
    for file in (tree / "val" / "flagged").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match=r"split 'val' .* has no flagged image \(label 1\)"):
        load_dataset(tree)


def test_an_empty_class_folder_is_noticed_before_images_are_read(tmp_path):
    for name in ("flagged", "ordinary"):
        (tmp_path / name).mkdir()
    draw(tmp_path / "flagged" / "0.png", 0)
    with pytest.raises(ValueError, match=r"nothing in a folder called clear \(or ordinary, 0\); put images"):
        load_dataset(tmp_path)
    (tmp_path / "ordinary").rmdir()
    (tmp_path / "flagged").rename(tmp_path / "clear")
    with pytest.raises(ValueError, match=r"nothing in a folder called flagged \(or bad, 1\)"):
        load_dataset(tmp_path)


def test_unreadable_images_are_left_out_or_refused(tree):
    broken = tree / "train" / "clear" / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff not really")
    dataset = load_dataset(tree)
    assert len(dataset) == 12
    assert broken not in dataset.files
    (message,) = dataset.messages()
    assert message.startswith("1 unreadable image(s) left out")
    assert "broken.jpg" in message
    with pytest.raises(ValueError, match=r"1 unreadable image.*broken\.jpg.*without --strict"):
        load_dataset(tree, strict=True)


def test_content_hash_follows_content_not_place(tree, tmp_path):
    before = load_dataset(tree).content_hash("train")
    moved = tmp_path / "elsewhere"
    shutil.move(tree, moved)
    assert load_dataset(moved).content_hash("train") == before
    draw(moved / "train" / "clear" / "0.png", 99)
    assert load_dataset(moved).content_hash("train") != before


def test_files_that_the_system_will_not_read_are_left_out_or_refused(tree, monkeypatch):
    """Root may read everything, so the refusal is made up."""
    locked = tree / "train" / "clear" / "locked.png"
    draw(locked, 77)
    read = Path.read_bytes

    def refuse(path):
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    dataset = load_dataset(tree)
    assert len(dataset) == 12
    (message,) = dataset.messages()
    assert message.startswith("1 unreadable image(s) left out")
    assert "locked.png: cannot be read (Permission denied)" in message
    with pytest.raises(ValueError, match=r"1 unreadable image.*locked\.png"):
        load_dataset(tree, strict=True)


def test_label_hash_follows_labels(tree):
    before = load_dataset(tree)
    (tree / "train" / "flagged").rename(tree / "train" / "x")
    (tree / "train" / "clear").rename(tree / "train" / "flagged")
    (tree / "train" / "x").rename(tree / "train" / "clear")
    after = load_dataset(tree)
    assert after.label_hash("train") != before.label_hash("train")
    assert after.label_hash("val") == before.label_hash("val")


def test_a_split_by_content_that_lacks_a_class_says_how_to_give_splits(tmp_path):
    for i in range(3):
        draw(tmp_path / ("clear" if i % 2 else "flagged") / f"{i}.png", i)
    with pytest.raises(ValueError, match=r"split by content hash .* give your own splits"):
        load_dataset(tmp_path)


def test_only_the_splits_that_are_needed_must_have_images(tree):
    shutil.rmtree(tree / "train")
    with pytest.raises(ValueError, match=r"split 'train' of .* has no ordinary image"):
        load_dataset(tree)
    assert load_dataset(tree, needed=("val", "test")).describe().endswith("train 0/0, val 2/2, test 2/2")


def test_every_image_can_be_a_test_image(tree, table):
    folder = tree / "test"  # a folder of class folders
    assert load_dataset(folder, needed=("test",), all_test=True).describe().endswith("val 0/0, test 2/2")
    plain = [line.split(",")[:2] for line in table.read_text().splitlines()]
    table.write_text("\n".join(map(",".join, plain)) + "\n")
    dataset = load_dataset(table, needed=("test",), all_test=True)
    assert dataset.describe().endswith("train 0/0, val 0/0, test 6/6")
    assert not dataset.split_by_content


def test_data_with_splits_are_not_all_tested(tree, table):
    for source in (tree, table):
        with pytest.raises(ValueError, match="has splits of its own"):
            load_dataset(source, needed=("test",), all_test=True)
