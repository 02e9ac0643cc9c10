"""Labelled images: class folders or a CSV file, split into train, val and test.

A data set that brings no split is split by the content hash of each file, so that equal images never stand on
both sides of a split, and adding images moves none of those already there.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poolsieve.images.reading import UnreadableImage, decode_image

SPLITS = ("train", "val", "test")
CLASS_FOLDERS = {"clear": 0, "ordinary": 0, "0": 0, "flagged": 1, "bad": 1, "1": 1}
"""What a class folder may be called, unless its name is given."""
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
IMAGE_ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"})
HASH_SHARES = {"train": 0.70, "val": 0.15, "test": 0.15}
"""Shares of the splits made by content hash."""
_EXAMPLES = 5


@dataclass(frozen=True)
class Duplicates:
    """Equal files (by content) that stand where they should not."""

    straddling: tuple[tuple[Path, ...], ...] = ()  # groups of equal files of which not all are in one split
    contradicting: tuple[tuple[Path, ...], ...] = ()  # groups of equal files that carry both labels

    def messages(self) -> list[str]:
        """One line for each kind that occurs, with a few examples."""
        lines = []
        for groups, what in (
            (self.straddling, "stand in more than one split, so results on them are too good"),
            (self.contradicting, "are labelled both 0 and 1"),
        ):
            if groups:
                examples = "; ".join(" = ".join(map(str, group)) for group in groups[:_EXAMPLES])
                count = f"{len(groups)} image{'s' * (len(groups) != 1)}"
                lines.append(f"{count} {what}: {examples}{' ...' if len(groups) > _EXAMPLES else ''}")
        return lines


@dataclass(frozen=True)
class ImageDataset:
    """Labelled image files with their splits; only readable files are in it."""

    files: tuple[Path, ...]  # the image files
    labels: NDArray[np.int64]  # 1 for images to be flagged, 0 for ordinary ones. Shape (images,)
    splits: NDArray[np.str_]  # "train", "val" or "test" for each image. Shape (images,)
    digests: tuple[str, ...]  # SHA-256 of each file's bytes, in hexadecimal
    sizes: NDArray[np.int64]  # width and height of each image, upright. Shape (images, 2)
    unreadable: tuple[UnreadableImage, ...] = ()  # the files that were left out, with the reason
    duplicates: Duplicates = Duplicates()  # equal files across splits or labels
    split_by_content: bool = False  # the data brought no splits; they were made from the hash of each file

    def __len__(self) -> int:
        return len(self.files)

    def of_split(self, split: str) -> NDArray[np.intp]:
        """Positions of the images of one split, in order."""
        return np.flatnonzero(self.splits == split)

    def content_hash(self, split: str) -> str:
        """A hash of the contents and order of one split's images; equal data has an equal hash anywhere."""
        joined = "\n".join(self.digests[i] for i in self.of_split(split))
        return hashlib.sha256(joined.encode()).hexdigest()

    def label_hash(self, split: str) -> str:
        """A hash of the contents of one split's images with their labels, in order."""
        joined = "\n".join(f"{self.digests[i]} {self.labels[i]}" for i in self.of_split(split))
        return hashlib.sha256(joined.encode()).hexdigest()

    def split_advice(self) -> str:
        """What to do if a split has too few images of a class, to be put at the end of a message."""
        if not self.split_by_content:
            return ""
        return (
            ". The data was split by content hash into 70/15/15 %; add images, or give your own splits "
            "(folders train, val and test, or a column split)"
        )

    def messages(self) -> list[str]:
        """What a user should know about the data before training on it, one line each."""
        lines = []
        if self.unreadable:
            names = "; ".join(str(error) for error in self.unreadable[:_EXAMPLES])
            more = " ..." if len(self.unreadable) > _EXAMPLES else ""
            lines.append(f"{len(self.unreadable)} unreadable image(s) left out: {names}{more}")
        return lines + self.duplicates.messages()

    def describe(self) -> str:
        """Numbers of flagged and ordinary images in each split, in one line."""
        parts = []
        for split in SPLITS:
            labels = self.labels[self.of_split(split)]
            parts.append(f"{split} {int(labels.sum())}/{int((labels == 0).sum())}")
        return "flagged/ordinary images: " + ", ".join(parts)


@dataclass(frozen=True)
class _Entry:
    file: Path
    label: int
    split: str | None


def load_dataset(
    source: str | os.PathLike[str],
    *,
    strict: bool = False,
    flagged: Sequence[str] = (),
    clear: Sequence[str] = (),
    on_progress: Callable[[int, int], None] | None = None,
    needed: Sequence[str] = SPLITS,
    all_test: bool = False,
) -> ImageDataset:
    """Load a folder of class folders or a CSV file, checking every image once.

    Args:
        source: A folder `[split/]class/images`, classes named 0/1, clear/flagged, ordinary/flagged or
            ordinary/bad, or a CSV file with the columns `file,label[,split]`, files relative to the CSV.
        strict: Refuse the data set for one unreadable image rather than leave that image out.
        flagged: Names of the class folders with label 1, in place of those above.
        clear: Names of the class folders with label 0, likewise.
        on_progress: Called with (images checked, images in all).
        needed: Splits that must have images of both classes.
        all_test: Put every image into the split test, of data that bring no splits.

    Raises:
        ValueError: If labels or splits are wrong, a class has no image, or (strict) an image is unreadable.
        FileNotFoundError: If the source or any file it names does not exist.
    """
    path = Path(source)
    if path.is_dir():
        entries = _entries_of_folder(path, _class_names(flagged, clear), {*flagged, *clear})
    elif path.is_file():
        if flagged or clear:
            raise ValueError(
                f"{path} is a CSV file, whose column label says what is flagged; --flagged and --clear name "
                "class folders"
            )
        entries = _entries_of_csv(path)
    else:
        raise FileNotFoundError(f"{path} does not exist; give a folder of class folders or a CSV file")
    if all_test:
        if any(entry.split is not None for entry in entries):
            raise ValueError(
                f"{path} has splits of its own, of which not all can be tested at once: name one of them, or "
                "give a folder of class folders or a CSV without the column split"
            )
        entries = [replace(entry, split="test") for entry in entries]
    checked = _check_files([entry.file for entry in entries], on_progress)
    unreadable = tuple(failure for _, _, failure in checked if failure is not None)
    if strict and unreadable:
        first = "; ".join(str(error) for error in unreadable[:_EXAMPLES])
        raise ValueError(
            f"{len(unreadable)} unreadable image(s) in {path}: {first}. "
            "Mend or remove them, or run without --strict to leave them out"
        )
    kept = [
        (replace(entry, split=entry.split or _split_by_hash(digest)), digest, size)
        for entry, (digest, size, failure) in zip(entries, checked, strict=True)
        if failure is None
    ]
    dataset = ImageDataset(
        files=tuple(entry.file for entry, _, _ in kept),
        labels=np.array([entry.label for entry, _, _ in kept], dtype=np.int64),
        splits=np.array([entry.split for entry, _, _ in kept], dtype=np.str_),
        digests=tuple(digest for _, digest, _ in kept),
        sizes=np.array([size for _, _, size in kept], dtype=np.int64).reshape(-1, 2),
        unreadable=unreadable,
        duplicates=_find_duplicates((digest, entry) for entry, digest, _ in kept),
        split_by_content=entries[0].split is None,
    )
    _require_both_classes(dataset, path, needed)
    return dataset


def _entries_of_csv(path: Path) -> list[_Entry]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        columns = reader.fieldnames or []
        missing = [name for name in ("file", "label") if name not in columns]
        if missing:
            raise ValueError(
                f"{path} has no column {' and no column '.join(map(repr, missing))}; "
                f"its first line must name file,label[,split], but it is {','.join(columns)!r}"
            )
        entries = [_entry_of_row(path, reader.line_num, row, "split" in columns) for row in reader]
    if not entries:
        raise ValueError(f"{path} lists no images")
    absent = [entry.file for entry in entries if not entry.file.is_file()]
    if absent:
        raise FileNotFoundError(
            f"{len(absent)} of {len(entries)} files named in {path} do not exist, the first is {absent[0]}; "
            "names are relative to the CSV file"
        )
    return entries


def _entry_of_row(path: Path, line: int, row: dict[str, str], has_split: bool) -> _Entry:
    label, file = (row["label"] or "").strip(), (row["file"] or "").strip()
    if label not in ("0", "1"):
        raise ValueError(f"{path}, line {line}: label is {label!r}; labels are 0 (ordinary) or 1 (flagged)")
    if not file:
        raise ValueError(f"{path}, line {line}: no file is named")
    split = None
    if has_split:
        name = (row["split"] or "").strip().lower()
        split = SPLIT_NAMES.get(name)
        if split is None:
            raise ValueError(f"{path}, line {line}: split is {name!r}; give train, val or test")
    return _Entry(path.parent / file, int(label), split)


def _class_names(flagged: Sequence[str], clear: Sequence[str]) -> dict[str, int]:
    """Labels by the names of class folders: those given for a label, or those that it may have anyway."""
    both = {*flagged} & {*clear}
    if both:
        raise ValueError(f"the folder {min(both)!r} cannot be both flagged and clear; name it once")
    given = {1: flagged, 0: clear}
    names = {name: label for name, label in CLASS_FOLDERS.items() if not given[label]}
    for label, own in given.items():
        names |= dict.fromkeys(own, label)
    return names


def _entries_of_folder(path: Path, labels: Mapping[str, int], wanted: Collection[str]) -> list[_Entry]:
    """The images of class folders, with labels by their names, or of splits with these.

    Of the `wanted` names there must be a folder.
    """
    folders = _folders_in(path)
    if any(folder.name.lower() in SPLIT_NAMES for folder in folders):
        strange = [folder.name for folder in folders if folder.name.lower() not in SPLIT_NAMES]
        if strange:
            raise ValueError(f"{path} mixes splits and other folders ({', '.join(strange)})")
        splits: dict[Path, str | None] = {folder: SPLIT_NAMES[folder.name.lower()] for folder in folders}
    else:
        splits = {path: None}
    classes = [(folder, split) for parent, split in splits.items() for folder in _classes_in(parent)]
    there = sorted({folder.name for folder, _ in classes})
    missing = [name for name in wanted if name not in there]
    if missing:
        raise ValueError(f"{path} has no folder {min(missing)!r}; its folders are {', '.join(there)}")
    entries = [entry for folder, split in classes for entry in _entries_of_class(folder, labels, split)]
    endings = f"images ending in {', '.join(sorted(IMAGE_ENDINGS))}"
    if not entries:
        raise ValueError(f"{path} holds no {endings}")
    for label in (1, 0):
        if all(entry.label != label for entry in entries):
            names = _folder_names(labels, label)
            raise ValueError(f"{path} has nothing in a folder called {names}; put {endings} there")
    return entries


def _folders_in(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _classes_in(path: Path) -> list[Path]:
    folders = _folders_in(path)
    if not folders:
        raise ValueError(f"{path} has no class folders; put images into {path}/clear and {path}/flagged")
    return folders


def _entries_of_class(folder: Path, labels: Mapping[str, int], split: str | None) -> list[_Entry]:
    label = labels.get(folder.name, labels.get(folder.name.lower()))
    if label is None:
        raise ValueError(
            f"the class of folder {folder} is unknown; call it {_folder_names(labels, 0)} for label 0, "
            f"{_folder_names(labels, 1)} for label 1, name it with --clear or --flagged, or list the files "
            "in a CSV"
        )
    return [
        _Entry(file, label, split)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix.lower() in IMAGE_ENDINGS
    ]


def _folder_names(labels: Mapping[str, int], label: int) -> str:
    first, *others = (name for name, value in labels.items() if value == label)
    return f"{first} (or {', '.join(others)})" if others else first


def _check_files(
    files: Sequence[Path], on_progress: Callable[[int, int], None] | None
) -> list[tuple[str, tuple[int, int], UnreadableImage | None]]:
    """Hash and decode every file; gives the hash, the size, and what is wrong with it."""

    def check(file: Path) -> tuple[str, tuple[int, int], UnreadableImage | None]:
        try:
            data = file.read_bytes()
            return hashlib.sha256(data).hexdigest(), decode_image(data, file).size, None
        except UnreadableImage as error:
            return "", (0, 0), error
        except OSError as error:  # no right to read it, or a damaged disk
            return "", (0, 0), UnreadableImage(file, f"cannot be read ({error.strerror})")

    checked = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        for one in workers.map(check, files):
            checked.append(one)
            if on_progress is not None:
                on_progress(len(checked), len(files))
    return checked


def _split_by_hash(digest: str) -> str:
    place = int(digest[:16], 16) / 2**64
    if place < HASH_SHARES["train"]:
        return "train"
    return "val" if place < HASH_SHARES["train"] + HASH_SHARES["val"] else "test"


def _find_duplicates(entries: Iterable[tuple[str, _Entry]]) -> Duplicates:
    """Equal files among entries, which come with the hash of their content."""
    groups: dict[str, list[_Entry]] = defaultdict(list)
    for digest, entry in entries:
        groups[digest].append(entry)

    def differing(attribute: str) -> tuple[tuple[Path, ...], ...]:
        apart = (g for g in groups.values() if len({getattr(entry, attribute) for entry in g}) > 1)
        return tuple(tuple(entry.file for entry in group) for group in apart)

    return Duplicates(straddling=differing("split"), contradicting=differing("label"))


def _require_both_classes(dataset: ImageDataset, path: Path, needed: Sequence[str]) -> None:
    for split in needed:
        labels = dataset.labels[dataset.of_split(split)]
        for label, name in ((0, "ordinary"), (1, "flagged")):
            if not np.any(labels == label):
                raise ValueError(
                    f"split {split!r} of {path} has no {name} image (label {label}) that can be read; "
                    f"this split needs both classes{dataset.split_advice()}"
                )
