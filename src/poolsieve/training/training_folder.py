"""Which run a folder holds: `settings.json` with its settings, and hashes of its data and of its network."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from poolsieve.files import write_atomically
from poolsieve.folders import LOCK_FILE, check_folder, is_leftover, lock_folder, remove_leftovers
from poolsieve.images.datasets import SPLITS, ImageDataset
from poolsieve.networks import SplitBackbone
from poolsieve.networks.weights import hash_weights
from poolsieve.training.settings import TrainingSettings, differing_settings
from poolsieve.training.teaching import Teacher

SETTINGS_FILE = "settings.json"


def describe_run(
    settings: TrainingSettings,
    dataset: ImageDataset,
    backbone: SplitBackbone,
    teacher: Teacher | None = None,
) -> dict[str, Any]:
    """All that decides what a run ends with, as it stands in `settings.json`."""
    taught = {} if teacher is None else {"teacher": teacher.bundle.hash}
    return {
        "settings": settings.to_json(),
        "data": {split: dataset.content_hash(split) for split in SPLITS},
        "labels": {split: dataset.label_hash(split) for split in SPLITS},
        "network": {
            "weights": hash_weights(backbone),
            "input_size": backbone.input_size,
            "shrink": backbone.shrink,
            "mean": list(backbone.preprocessing.mean),
            "scale": list(backbone.preprocessing.scale),
            **taught,
        },
    }


class TrainingFolder:
    """The folder of one training run, held by one process; a context manager.

    Entering looks at the folder and, if it holds a run already, locks it. A new folder is only made by
    `claim`, so that settings and data which are refused leave nothing behind.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held = ExitStack()
        self._locked = False

    def __enter__(self) -> TrainingFolder:
        check_folder(self.path, "--out")
        if (self.path / SETTINGS_FILE).is_file():
            self._lock()
        else:
            self._require_empty()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def claim(self, description: dict[str, Any]) -> None:
        """Write the description into a new run's folder, or make sure that an older run there had the same.

        Raises:
            ValueError: The folder holds another run, or another process is at work in it.
        """
        if not self._locked:
            self._lock()
        for folder in (self.path, *(self.path / "phases").glob("*/")):
            remove_leftovers(folder)
        file = self.path / SETTINGS_FILE
        if file.is_file():
            lines = _differences(_read(file), description)
            if lines:
                raise ValueError(
                    f"{self.path} holds a run with other settings ({'; '.join(lines)}). "
                    "Give the old settings to go on with it, or another --out"
                )
        else:
            self._require_empty()  # it may have been filled while the images were checked
            write_atomically(file, (json.dumps(description, indent=2) + "\n").encode())

    def _lock(self) -> None:
        try:
            self._held.enter_context(lock_folder(self.path))
        except TimeoutError:
            raise ValueError(
                f"another run is at work in {self.path}; wait until it ends, or give another --out"
            ) from None
        self._locked = True

    def _require_empty(self) -> None:
        if not self.path.exists():
            return
        if any(entry.name != LOCK_FILE and not is_leftover(entry) for entry in self.path.iterdir()):
            raise ValueError(f"{self.path} is not empty and holds no training run; give another --out")


def _read(file: Path) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads(file.read_text())
        for name in ("settings", "data", "labels", "network"):
            if not isinstance(known[name], dict):
                raise TypeError(f"{name} must be an object")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file}: damaged ({error}); give another --out") from error
    return known


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    lines = differing_settings(old["settings"], new["settings"])
    changed = [split for split in SPLITS if old["data"].get(split) != new["data"][split]]
    relabelled = [split for split in SPLITS if old["labels"].get(split) != new["labels"][split]]
    lines += [f"data of split {split}: changed" for split in changed]
    lines += [f"labels of split {split}: changed" for split in relabelled if split not in changed]
    network = differing_settings(old["network"], new["network"])
    changed_weights = "pretrained weights of the network: changed"
    return lines + [changed_weights if line.startswith("weights: ") else line for line in network]
