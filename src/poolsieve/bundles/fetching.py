"""Bundles in object stores: copied once into the user's cache, under the hash of their configuration."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from poolsieve.bundles.config import CONFIG_FILE, BundleConfig, edition_file
from poolsieve.images.locations import Location

_LARGEST_CONFIG = 10_000_000


def fetch_bundle(name: str) -> Path:
    """A copy of a bundle on disk; every file of it is checked when it is loaded.

    The configuration is read from the store each time, and holds the hashes of all other files: these are
    fetched only if the cache has no copy with the same configuration.

    Args:
        name: A folder such as `s3://bucket/bundles/firearms`.

    Raises:
        ValueError: There is no bundle.
        OSError: It cannot be read.
    """
    folder = Location(name)
    try:
        data = (folder / CONFIG_FILE).read_bytes(_LARGEST_CONFIG)
    except FileNotFoundError:
        raise ValueError(f"{name} is no bundle: it has no {CONFIG_FILE}") from None
    config = _parsed(data, folder / CONFIG_FILE)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    place = Path(home) / "poolsieve" / "bundles" / hashlib.sha256(data).hexdigest()
    target = place / (name.rstrip("/").rpartition("/")[2] or "bundle")
    if target.is_dir():
        return target
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        copy = Path(temporary) / "bundle"
        copy.mkdir()
        _copy(folder, copy, config)
        (copy / CONFIG_FILE).write_bytes(data)
        try:
            copy.rename(target)
        except OSError:  # another process was quicker
            if not target.is_dir():
                raise
            shutil.rmtree(copy)
    return target


def _parsed(data: bytes, file: Location) -> BundleConfig:
    try:
        return BundleConfig.from_json(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from None


def _copy(folder: Location, copy: Path, config: BundleConfig) -> None:
    """Write the files of a bundle, but its configuration, into a folder; those of its editions too."""
    for file, record in config.files.items():  # names are those that a bundle has, and no other paths
        content = (folder / file).read_bytes(record.bytes)
        if hashlib.sha256(content).hexdigest() != record.sha256:
            raise ValueError(f"{folder / file} is damaged: its hash is not the one in {CONFIG_FILE}")
        (copy / file).parent.mkdir(exist_ok=True)
        (copy / file).write_bytes(content)
    for edition in config.editions:
        there = folder / edition_file(edition)
        inner = _parsed((copy / edition_file(edition)).read_bytes(), there)
        try:
            config.check_edition(edition, inner)  # so that editions of editions are not followed
        except ValueError as error:
            raise ValueError(f"{there}: {error}") from None
        _copy(folder / edition, copy / edition, inner)
