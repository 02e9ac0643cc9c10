"""What a bundle says of itself in `config.json`, read strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from poolsieve.bundles.training_shapes import TrainingShapes
from poolsieve.designs.pool_pairs import check_pairs
from poolsieve.multiply_adds import MultiplyAdds
from poolsieve.network_forms import Counting, Merge
from poolsieve.strict_json import FromZero, read_record
from poolsieve.view_settings import ResizeMode

FORMAT_VERSION = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
CALIBRATION_FILE = "calibration.json"
CARD_FILE = "README.md"
RECORDINGS_FILE = "recordings.safetensors"
PLANS_FILE = "plans.json"
Edition = Literal["int8", "binary"]
"""Bundles of the same task that a bundle may hold, each in a folder of this name: one whose networks compute
in int8, and one whose pooled networks were trained to tell whether any image is bad."""
EDITIONS: tuple[Edition, ...] = get_args(Edition)
OUTLIER_FILE = "outliers.safetensors"
FRONT_GRAPH, HEAD_GRAPH, INDIVIDUAL_GRAPH = "front.onnx", "head.onnx", "individual.onnx"
GLANCE_GRAPH = "glance.onnx"

Kind = Literal["classification", "outlier"]
WeightPrecision = Literal["fp32", "fp16"]
"""How the weights of a training run may be stored."""
BundlePrecision = Literal["fp32", "fp16", "int8"]
PoolReadings = Literal["counts", "binary"]


def edition_file(edition: Edition) -> str:
    """The file of an edition that stands for all of it, as it holds the hashes of its other files."""
    return f"{edition}/{CONFIG_FILE}"


OPTIONAL_FILES = frozenset({WEIGHTS_FILE, RECORDINGS_FILE, PLANS_FILE, *map(edition_file, EDITIONS)})
"""The weights, which an export may leave out, what `poolsieve bundles record` adds, and editions."""


def pooled_graph(pool_size: int) -> str:
    """File of the counting network for pools of that size."""
    return f"pooled-{pool_size}.onnx"


@dataclass(frozen=True)
class FileRecord:
    """What a file of the bundle must be.

    Attributes:
        sha256: Hash of its content, in hexadecimal.
        bytes: Its size.
    """

    sha256: str
    bytes: FromZero


@dataclass(frozen=True)
class GlanceRecord:
    """What the glance is made of.

    Attributes:
        shrink: How many times smaller it makes height and width.
        stop: Its part of the backbone ends after this stage; None for all of it.
    """

    shrink: int
    stop: str | None


@dataclass(frozen=True)
class BundleConfig:
    """The description of a bundle.

    Attributes:
        format_version: Layout of the folder and of this record.
        task: What is looked for, such as "firearms".
        kind: How outputs become readings; "classification" is softmax over counts, "outlier" the density of
            the feature vectors, by the arrays of one more file.
        backbone: Name of the backbone.
        cut: The front ends after this stage.
        merge: "gated" multiplies by the gate before the maximum over a pool, "max" does not; "tree" takes the
            maximum over pairs of a pool, and again over what is left at later depths.
        input_size: Height and width of images in pixels.
        resize_mode: How images are made square.
        mean: Subtracted from RGB pixels of 0 to 255; the front graph does it.
        scale: Divides them after that.
        feature_shape: Channels, height and width of one image's front features.
        feature_width: Length of the vector before the final layer.
        gate_width: Channels inside the gate.
        pool_sizes: Pool sizes that there are counting networks for, ascending.
        precision: How weights are stored; networks compute in single precision, but with "int8" in whole
            numbers of 8 bits for the most part (see `poolsieve.export.quantising`).
        cost: Multiply-adds of the parts.
        training_prior: Shares of training pools with 0 … r bad images, by pool size.
        files: Every other file of the bundle.
        versions: Of the software that made it.
        glance: The small network for a first look, if there is one.
        tallies: Maps K beside the gate that are summed over a pool's images and go below its merged features.
        counting: "shared" if the counting network of the largest pools serves all sizes; the first r + 1 of
            its outputs are those of pools of r. "separate" if each size has its own.
        training_shapes: Shapes of the training images; None if they are not known.
        readings: "counts" if pooled networks were trained to count; "binary" if to tell whether any image is
            bad: they read 0 or 1, and 1 stands for any number.
        shrink: How many times smaller the front makes images first.
        again: Stages behind the cut after which a tree merges again.
    """

    format_version: int
    task: str
    kind: Kind
    backbone: str
    cut: str
    merge: Merge
    input_size: int
    resize_mode: ResizeMode
    mean: tuple[float, float, float]
    scale: tuple[float, float, float]
    feature_shape: tuple[int, int, int]
    feature_width: int
    gate_width: int
    pool_sizes: tuple[int, ...]
    precision: BundlePrecision
    cost: MultiplyAdds
    training_prior: Mapping[int, tuple[float, ...]]
    files: Mapping[str, FileRecord]
    versions: Mapping[str, str]
    glance: GlanceRecord | None
    counting: Counting
    tallies: FromZero
    training_shapes: TrainingShapes | None
    readings: PoolReadings = "counts"
    shrink: int = 1
    again: tuple[str, ...] = ()

    @property
    def joined(self) -> bool:
        """Whether the individual network looks at images itself; then the glance goes on from the front."""
        return self.cost.individual > 0

    def shrinks(self, file: str) -> bool:
        """Whether a graph takes images and makes them smaller first."""
        return (file == FRONT_GRAPH and self.shrink > 1) or (file == GLANCE_GRAPH and not self.joined)

    @property
    def small_shrink(self) -> int:
        """How many times smaller images may be that are given to graphs that shrink them; 1 if none does."""
        return self.shrink if self.glance is None or self.joined else self.glance.shrink

    @property
    def network_sizes(self) -> tuple[int, ...]:
        """Pool sizes that have a counting network of their own."""
        return self.pool_sizes[-1:] if self.counting == "shared" else self.pool_sizes

    @property
    def depths(self) -> int:
        """At how many depths pools are merged."""
        return 1 + len(self.again)

    def counting_graph(self, pool_size: int) -> str:
        """File of the graph that counts in pools of that size."""
        return pooled_graph(self.pool_sizes[-1] if self.counting == "shared" else pool_size)

    @property
    def editions(self) -> tuple[Edition, ...]:
        """Names of the editions that the bundle holds."""
        return tuple(edition for edition in EDITIONS if edition_file(edition) in self.files)

    def check_edition(self, edition: Edition, config: BundleConfig) -> None:
        """Raise ValueError if a configuration cannot be that of an edition of this bundle."""
        if config.editions:
            raise ValueError("an edition holds no editions itself")
        what: Literal["precision", "readings"] = "precision" if edition == "int8" else "readings"
        if getattr(config, what) != edition:
            raise ValueError(f"{what} is {getattr(config, what)!r}, but must be {edition!r}")
        for name in ("task", "kind", "input_size", "resize_mode", "pool_sizes"):
            own, other = getattr(self, name), getattr(config, name)
            if own != other:
                raise ValueError(f"{name} is {other!r}, but the bundle that holds it has {own!r}")

    @property
    def graphs(self) -> tuple[str, ...]:
        """Files of all graphs."""
        graphs = (FRONT_GRAPH, HEAD_GRAPH, INDIVIDUAL_GRAPH, *map(pooled_graph, self.network_sizes))
        return graphs if self.glance is None else (*graphs, GLANCE_GRAPH)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = asdict(self)
        values["training_prior"] = {str(size): list(part) for size, part in self.training_prior.items()}
        return values

    @classmethod
    def from_json(cls, values: object) -> BundleConfig:
        """The reverse of `to_json`.

        Raises:
            ValueError: A value is missing, has another type or is out of range, or the format is newer.
        """
        known = values if isinstance(values, Mapping) else {}
        if "format_version" not in known and "settings" in known:
            raise ValueError(
                "belongs to a training run; make a bundle of it with `poolsieve bundles export RUN OUT`"
            )
        version = known.get("format_version")
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise ValueError(
                f"format_version is {version}, but this poolsieve reads up to {FORMAT_VERSION}; "
                "upgrade it with: pip install --upgrade poolsieve"
            )
        config = read_record(cls, values)
        by_size = {size: config.training_prior.get(str(size), ()) for size in config.pool_sizes}  # type: ignore[call-overload]
        if len(config.training_prior) != len(by_size):
            raise ValueError(
                f"training_prior is for pool sizes {sorted(map(str, config.training_prior))}, but pool_sizes "
                f"is {list(by_size)}"
            )
        config = replace(config, training_prior=by_size)
        config._check()
        return config

    def _check(self) -> None:
        """What must hold beyond the type of each value."""
        sizes = self.pool_sizes
        if not sizes or min(sizes) < 2 or list(sizes) != sorted(set(sizes)):
            raise ValueError(
                f"pool_sizes is {list(sizes)}, but must be different sizes from 2 on in ascending order"
            )
        for size, shares in self.training_prior.items():
            if len(shares) != size + 1 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
                raise ValueError(f"training_prior.{size} must be {size + 1} shares with sum 1; got {shares}")
        if self.shrink < 1 or self.input_size % self.shrink:
            raise ValueError(f"shrink is {self.shrink}, but must divide input_size, {self.input_size}")
        if self.shrink > 1 and not self.joined and self.glance is not None:
            raise ValueError("a glance beside a front that shrinks images must go on from it")
        if (self.merge == "tree") != bool(self.again) or (self.again and len(sizes) > 1):
            raise ValueError(
                f"merge is {self.merge!r}, again is {list(self.again)}, pool_sizes is {list(sizes)}; but a "
                "tree merges again, in pools of one size, and nothing else does"
            )
        if self.again:
            check_pairs(sizes[0], self.depths)
        if self.cost.whole == 0 or not all(value > 0 for value in self.scale):
            raise ValueError("the cost of the whole network and every scale must be above 0")
        for name, record in self.files.items():
            if not re.fullmatch("[0-9a-f]{64}", record.sha256):
                raise ValueError(f"files.{name}.sha256 is not 64 hexadecimal digits")
        expected = {*self.graphs, CALIBRATION_FILE, CARD_FILE, *([OUTLIER_FILE] * (self.kind == "outlier"))}
        if set(self.files) - OPTIONAL_FILES != expected:
            missing = sorted(expected - set(self.files))
            extra = sorted(set(self.files) - expected - OPTIONAL_FILES)
            raise ValueError(f"files must name exactly the bundle's files; missing {missing}, extra {extra}")


def read_training_shapes(values: Mapping[str, Any]) -> TrainingShapes | None:
    """What the configuration of a run or a bundle says under `training_shapes`; None if not known."""
    return read_record(_KnownShapes, values).training_shapes


@dataclass(frozen=True)
class _KnownShapes:
    training_shapes: TrainingShapes | None
