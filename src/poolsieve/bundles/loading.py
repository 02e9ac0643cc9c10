"""Finding, checking and loading bundles; needs no torch."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolsieve.bundles.config import (
    CALIBRATION_FILE,
    CONFIG_FILE,
    EDITIONS,
    OUTLIER_FILE,
    PLANS_FILE,
    RECORDINGS_FILE,
    WEIGHTS_FILE,
    BundleConfig,
    Edition,
    edition_file,
)
from poolsieve.bundles.graph_specs import GraphSpec, graph_specs
from poolsieve.bundles.onnx_reading import read_onnx
from poolsieve.bundles.recordings import Recordings
from poolsieve.calibration import Calibration
from poolsieve.outliers import OutlierReadings

SHIPPED = Path(__file__).parent / "shipped"
"""Folder of the bundles that come with the package."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that was found whole.

    Attributes:
        path: Its folder.
        config: What it says of itself.
        calibration: What its networks' outputs are worth.
        outliers: How they are read where the density of feature vectors tells; None for classification.
        hash: sha256 of `config.json`; since that holds every other file's hash, it stands for all of it.
    """

    path: Path
    config: BundleConfig
    calibration: Calibration
    hash: str
    outliers: OutlierReadings | None = None

    @property
    def name(self) -> str:
        """Name of the folder; that of the bundle which holds it, if it is an edition."""
        return self.path.name if edition_of(self.path) is None else self.path.parent.name

    def edition(self, edition: Edition) -> Bundle:
        """A bundle that it holds, checked whole.

        Raises:
            ValueError: It does not hold it, or not the one that it was made with.
        """
        if edition not in self.config.editions:
            raise ValueError(
                f"{self.path} holds no {edition} edition; it has {', '.join(self.config.editions) or 'none'}"
            )
        found = load_bundle(self.path / edition)
        if found.hash != self.config.files[edition_file(edition)].sha256:
            raise ValueError(
                f"{found.path / CONFIG_FILE} has changed since the bundle was loaded; load it anew"
            )
        return found

    @property
    def has_weights(self) -> bool:
        """Whether it can be trained further and run by torch."""
        return WEIGHTS_FILE in self.config.files

    @property
    def has_recordings(self) -> bool:
        """Whether plans can be made for it."""
        return RECORDINGS_FILE in self.config.files

    def recordings(self) -> Recordings:
        """What its networks said of labelled images.

        Raises:
            ValueError: It has none.
        """
        if not self.has_recordings:
            raise ValueError(
                f"the bundle {self.name} has no recordings to plan from; make them of labelled images with: "
                f"poolsieve bundles record {self.path} DATA"
            )
        return Recordings.from_bytes(self.read(RECORDINGS_FILE))

    def read(self, file: str) -> bytes:
        """Content of one of its files, which is checked again, so that what was checked is what is used."""
        return read_checked(self.path, self.config, file)


def load_bundle(path_or_name: str | os.PathLike[str]) -> Bundle:
    """Load a bundle after checking all of it; an edition that it holds is checked when that is loaded.

    Args:
        path_or_name: A folder, also in an object store, or the name of a bundle that comes with the package.

    Raises:
        ValueError: There is no such bundle, or it is damaged or foreign; the message names the file.
    """
    folder = find_bundle(path_or_name)
    config, digest = _config_and_hash(folder)
    for problem in _problems(folder, config):
        raise ValueError(problem)
    outliers = None
    if config.kind == "outlier":
        outliers = OutlierReadings.from_bytes(read_checked(folder, config, OUTLIER_FILE))
    calibration = Calibration.from_json(json.loads(read_checked(folder, config, CALIBRATION_FILE)))
    return Bundle(folder, config, calibration, digest, outliers)


def verify_bundle(path_or_name: str | os.PathLike[str]) -> list[str]:
    """Check a bundle as `load_bundle` does, but go on after a problem, and check the editions it holds too.

    Returns:
        All problems, each naming its file; none if the bundle is whole.
    """
    folder = find_bundle(path_or_name)
    try:
        config = read_config(folder)
    except ValueError as error:
        return [str(error)]
    return list(_problems(folder, config, editions=True))


def find_bundle(path_or_name: str | os.PathLike[str]) -> Path:
    """Folder of a bundle given by path, or by its name if it comes with the package.

    One in an object store is fetched.
    """
    from poolsieve.images.locations import is_remote  # reads images too, which takes a while to import

    if is_remote(path_or_name):
        from poolsieve.bundles.fetching import fetch_bundle

        return fetch_bundle(os.fspath(path_or_name))
    given = Path(path_or_name)
    if given.is_dir():
        return given.resolve()
    shipped, named = SHIPPED / given, given.parent if given.name in EDITIONS else given
    if len(named.parts) == 1 and shipped.is_dir():
        return shipped
    names = [folder.name for folder in list_bundles()]
    there = f"the package has {', '.join(names)}" if names else "the package comes with none"
    raise ValueError(f"no bundle {os.fspath(path_or_name)!r}: there is no such folder, and {there}")


def edition_of(folder: Path) -> Edition | None:
    """Which edition a folder is of the bundle in the folder around it; None if that holds no such edition."""
    if folder.name not in EDITIONS or not (folder.parent / CONFIG_FILE).is_file():
        return None
    try:
        held = read_config(folder.parent).editions
    except ValueError:  # of a training run, or damaged: no bundle that could hold anything
        return None
    return next((edition for edition in held if edition == folder.name), None)


def list_bundles(search: Iterable[str | os.PathLike[str]] = ()) -> list[Path]:
    """Folders of the bundles that come with the package, then those directly in the folders of `search`."""
    folders: list[Path] = []
    for place in (SHIPPED, *map(Path, search)):
        if place.is_dir():
            folders += sorted(folder for folder in place.iterdir() if _looks_like_bundle(folder))
        elif place != SHIPPED:
            raise ValueError(f"{place}: no such folder")
    return folders


def _looks_like_bundle(folder: Path) -> bool:
    return (folder / CONFIG_FILE).is_file() and any(folder.glob("*.onnx"))


def read_config(folder: Path) -> BundleConfig:
    """What a bundle says of itself, without looking at its other files."""
    return _config_and_hash(folder)[0]


def _config_and_hash(folder: Path) -> tuple[BundleConfig, str]:
    file = folder / CONFIG_FILE
    if not file.is_file():
        raise ValueError(f"{folder} is no bundle: it has no {CONFIG_FILE}")
    data = file.read_bytes()
    try:
        return BundleConfig.from_json(json.loads(data)), hashlib.sha256(data).hexdigest()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from error


def read_checked(folder: Path, config: BundleConfig, name: str) -> bytes:
    """Content of a file of a bundle, if it is the one that the bundle was made with."""
    file, record = folder / name, config.files[name]
    if not file.is_file():
        raise ValueError(f"{file} is missing; get the bundle anew")
    size = file.stat().st_size
    if size != record.bytes:
        raise ValueError(
            f"{file} is damaged: it has {size} bytes and not {record.bytes}; get the bundle anew"
        )
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise ValueError(f"{file} is damaged: its hash is not the one in {CONFIG_FILE}; get the bundle anew")
    return data


def _problems(folder: Path, config: BundleConfig, *, editions: bool = False) -> Iterator[str]:
    """All that is wrong with the files, one file after the other; with those inside of editions if wanted."""
    specs, held = graph_specs(config), {edition_file(edition): edition for edition in EDITIONS}
    for name in config.files:
        try:
            data = read_checked(folder, config, name)
        except ValueError as error:
            yield str(error)
            continue
        try:
            if name in specs:
                _check_graph(data, specs[name])
            elif name == WEIGHTS_FILE:
                _check_weights(data)
            elif name == OUTLIER_FILE:
                _check_outliers(OutlierReadings.from_bytes(data), config)
            elif name == CALIBRATION_FILE:
                _check_calibration(Calibration.from_json(json.loads(data)), config)
            elif name == RECORDINGS_FILE:
                _check_recordings(data, config)
            elif name == PLANS_FILE:
                _check_plans(data)
            elif name in held:
                edition = BundleConfig.from_json(json.loads(data))
                config.check_edition(held[name], edition)
                if editions:
                    yield from _problems(folder / held[name], edition)
        except (ValueError, RecursionError) as error:
            yield f"{folder / name}: {error}"
    for file in sorted(folder.glob("*.onnx")):
        if file.name not in specs:
            yield f"{file} does not belong to the bundle"


def _check_graph(data: bytes, spec: GraphSpec) -> None:
    content = read_onnx(data)
    for what, found, wanted in (
        ("takes", content.inputs, (spec.input,)),
        ("gives", content.outputs, spec.outputs),
    ):
        if found != wanted:
            raise ValueError(
                f"the graph {what} {'; '.join(map(str, found))}, but {CONFIG_FILE} says "
                f"{'; '.join(map(str, wanted))}"
            )
    if content.not_finite is not None:
        raise ValueError(f"the weights {content.not_finite!r} are not finite numbers")
    if not content.weights:
        raise ValueError("the graph holds no weights")


def _check_weights(data: bytes) -> None:
    from safetensors import SafetensorError  # not at the top: help of commands comes without extras
    from safetensors.numpy import load

    try:
        tensors = load(data)
    except (SafetensorError, KeyError) as error:  # KeyError: a type that numpy does not have
        raise ValueError(f"not a file of weights ({error})") from error
    for name, values in tensors.items():
        if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
            raise ValueError(f"the weights {name!r} are not finite numbers")


def _check_recordings(data: bytes, config: BundleConfig) -> None:
    sizes = {pool.pool_size for pool in Recordings.from_bytes(data).pools}
    if not sizes <= set(config.pool_sizes):
        raise ValueError(
            f"recorded with pools of {sorted(sizes)}, but there are networks for {list(config.pool_sizes)}"
        )


def _check_outliers(readings: OutlierReadings, config: BundleConfig) -> None:
    if sorted(readings.counting) != list(config.pool_sizes):
        raise ValueError(
            f"for pools of {sorted(readings.counting)}, but there are networks for {list(config.pool_sizes)}"
        )
    for reading in (readings.individual, *readings.counting.values()):
        if reading.mixture.width != config.feature_width:
            raise ValueError(
                f"a mixture is of vectors of {reading.mixture.width} numbers, but the networks give "
                f"{config.feature_width}"
            )


def _check_plans(data: bytes) -> None:
    """What plans say is checked by those who follow them (`poolsieve.planning.table`)."""
    values = json.loads(data)
    if not isinstance(values, dict) or not isinstance(values.get("plans"), list):
        raise ValueError("not a table of plans; make it anew with: poolsieve bundles replan BUNDLE")


def _check_calibration(calibration: Calibration, config: BundleConfig) -> None:
    if sorted(calibration.counting) != list(config.pool_sizes):
        raise ValueError(
            f"calibrated for pools of {sorted(calibration.counting)}, but there are networks for "
            f"{list(config.pool_sizes)}"
        )
    outputs = {size: len(part.scaling.biases) for size, part in calibration.counting.items()}
    wrong = [size for size, number in outputs.items() if number != size + 1]
    if wrong:
        raise ValueError(f"the scaling for pools of {wrong[0]} is for {outputs[wrong[0]]} outputs")
    for name, scaling in (
        ("individual", calibration.individual),
        ("head", calibration.head),
        ("glance", calibration.glance),
    ):
        if scaling is not None and len(scaling.biases) != 2:
            raise ValueError(f"the scaling {name} is for {len(scaling.biases)} outputs and not 2")
