"""What a bundle says of itself in `config.json`, read strictly."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from poolsieve.bundles.training_shapes import TrainingShapes

FORMAT_VERSION = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
CALIBRATION_FILE = "calibration.json"
CARD_FILE = "README.md"
RECORDINGS_FILE = "recordings.safetensors"
PLANS_FILE = "plans.json"
OPTIONAL_FILES = frozenset({WEIGHTS_FILE, RECORDINGS_FILE, PLANS_FILE})
"""The weights, which an export may leave out, and what `poolsieve bundles record` adds."""
OUTLIER_FILE = "outliers.safetensors"
FRONT_GRAPH, HEAD_GRAPH, INDIVIDUAL_GRAPH = "front.onnx", "head.onnx", "individual.onnx"
GLANCE_GRAPH = "glance.onnx"

Merge = Literal["gated", "max"]
Counting = Literal["shared", "separate"]
Kind = Literal["classification", "outlier"]
Squaring = Literal["pad", "stretch"]
WeightPrecision = Literal["fp32", "fp16"]
Choice = TypeVar("Choice", bound=str)


def pooled_graph(pool_size: int) -> str:
    """File of the counting network for pools of that size."""
    return f"pooled-{pool_size}.onnx"


@dataclass(frozen=True)
class MultiplyAdds:
    """Cost of the parts of a bundle's networks for one image or one pool, in multiply-adds.

    Attributes:
        front: Image to front features, once per image.
        back: Front or merged features to the vector before the final layer, once per pool or retest.
        final: The last linear layer.
        gate: The gate with the cheap head, once per image.
        glance: The glance at a shrunken image, once per image; 0 if there is none.
    """

    front: int
    back: int
    final: int
    gate: int
    glance: int = 0

    @property
    def whole(self) -> int:
        """One individual test: front, back and final layer."""
        return self.front + self.back + self.final

    @property
    def front_share(self) -> float:
        """The front's share f of one individual test."""
        return self.front / self.whole

    @property
    def gate_share(self) -> float:
        """The gate's cost as a share of one individual test."""
        return self.gate / self.whole

    @property
    def glance_share(self) -> float:
        """The glance's cost as a share of one individual test."""
        return self.glance / self.whole


@dataclass(frozen=True)
class FileRecord:
    """What a file of the bundle must be.

    Attributes:
        sha256: Hash of its content, in hexadecimal.
        bytes: Its size.
    """

    sha256: str
    bytes: int


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
        merge: "gated" multiplies by the gate before the maximum over a pool, "max" does not.
        input_size: Height and width of images in pixels.
        squaring: How images are made square.
        mean: Subtracted from RGB pixels of 0 to 255; the front graph does it.
        scale: Divides them after that.
        feature_shape: Channels, height and width of one image's front features.
        feature_width: Length of the vector before the final layer.
        gate_width: Channels inside the gate.
        pool_sizes: Pool sizes that there are counting networks for, ascending.
        precision: How weights are stored; networks compute in single precision either way.
        cost: Multiply-adds of the parts.
        training_prior: Shares of training pools with 0 … r bad images, by pool size.
        files: Every other file of the bundle.
        versions: Of the software that made it.
        glance: The small network for a first look, if there is one.
        tallies: Maps K beside the gate that are summed over a pool's images and go below its merged features.
        counting: "shared" if the counting network of the largest pools serves all sizes; the first r + 1 of
            its outputs are those of pools of r. "separate" if each size has its own.
        training_shapes: Shapes of the training images; None if they are not known.
    """

    format_version: int
    task: str
    kind: Kind
    backbone: str
    cut: str
    merge: Merge
    input_size: int
    squaring: Squaring
    mean: tuple[float, float, float]
    scale: tuple[float, float, float]
    feature_shape: tuple[int, int, int]
    feature_width: int
    gate_width: int
    pool_sizes: tuple[int, ...]
    precision: WeightPrecision
    cost: MultiplyAdds
    training_prior: Mapping[int, tuple[float, ...]]
    files: Mapping[str, FileRecord]
    versions: Mapping[str, str]
    glance: GlanceRecord | None
    counting: Counting
    tallies: int
    training_shapes: TrainingShapes | None

    @property
    def network_sizes(self) -> tuple[int, ...]:
        """Pool sizes that have a counting network of their own."""
        return self.pool_sizes[-1:] if self.counting == "shared" else self.pool_sizes

    def counting_graph(self, pool_size: int) -> str:
        """File of the graph that counts in pools of that size."""
        return pooled_graph(self.pool_sizes[-1] if self.counting == "shared" else pool_size)

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
        if not isinstance(values, Mapping):
            raise ValueError("holds no object")
        if "format_version" not in values and "settings" in values:
            raise ValueError(
                "belongs to a training run; make a bundle of it with `poolsieve bundles export RUN OUT`"
            )
        read = _Reader(values)
        version = read.whole("format_version")
        if version > FORMAT_VERSION:
            raise ValueError(
                f"format_version is {version}, but this poolsieve reads up to {FORMAT_VERSION}; "
                "upgrade it with: pip install --upgrade poolsieve"
            )
        sizes = read.wholes("pool_sizes", minimum=2)
        if not sizes or list(sizes) != sorted(set(sizes)):
            raise ValueError(f"pool_sizes is {list(sizes)}, but must be different sizes in ascending order")
        cost = _Reader(read.mapping("cost"), "cost.")
        config = cls(
            format_version=version,
            task=read.text("task"),
            kind=read.choice("kind", ("classification", "outlier")),
            backbone=read.text("backbone"),
            cut=read.text("cut"),
            merge=read.choice("merge", ("gated", "max")),
            input_size=read.whole("input_size"),
            squaring=read.choice("squaring", ("pad", "stretch")),
            mean=_three(read.numbers("mean"), "mean"),
            scale=_three(read.numbers("scale"), "scale"),
            feature_shape=_three(read.wholes("feature_shape"), "feature_shape"),
            feature_width=read.whole("feature_width"),
            gate_width=read.whole("gate_width"),
            pool_sizes=sizes,
            precision=read.choice("precision", ("fp32", "fp16")),
            cost=MultiplyAdds(
                front=cost.whole("front", minimum=0),
                back=cost.whole("back", minimum=0),
                final=cost.whole("final", minimum=0),
                gate=cost.whole("gate", minimum=0),
                glance=cost.whole("glance", minimum=0),
            ),
            training_prior=_priors(read.mapping("training_prior"), sizes),
            files=_file_records(read.mapping("files")),
            versions={name: str(value) for name, value in read.mapping("versions").items()},
            glance=_glance_record(read),
            counting=read.choice("counting", ("shared", "separate")),
            tallies=read.whole("tallies", minimum=0),
            training_shapes=read_training_shapes(values),
        )
        if config.cost.whole == 0 or not all(value > 0 for value in config.scale):
            raise ValueError("the cost of the whole network and every scale must be above 0")
        expected = {*config.graphs, CALIBRATION_FILE, CARD_FILE}
        if config.kind == "outlier":
            expected.add(OUTLIER_FILE)
        if set(config.files) - OPTIONAL_FILES != expected:
            missing = sorted(expected - set(config.files))
            extra = sorted(set(config.files) - expected - OPTIONAL_FILES)
            raise ValueError(f"files must name exactly the bundle's files; missing {missing}, extra {extra}")
        return config


class _Reader:
    """Takes typed values out of a JSON object; complaints name the key."""

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix

    def _get(self, key: str) -> Any:
        if key not in self._values:
            raise ValueError(f"{self._prefix}{key} is missing")
        return self._values[key]

    def _wrong(self, key: str, wanted: str) -> ValueError:
        return ValueError(f"{self._prefix}{key} is {self._values[key]!r:.80}, but must be {wanted}")

    def is_null(self, key: str) -> bool:
        return self._get(key) is None

    def whole(self, key: str, minimum: int = 1) -> int:
        value = self._get(key)
        if type(value) is not int or value < minimum:
            raise self._wrong(key, f"a whole number from {minimum} on")
        return value

    def wholes(self, key: str, minimum: int = 1) -> tuple[int, ...]:
        value = self._get(key)
        if not isinstance(value, list) or any(type(part) is not int or part < minimum for part in value):
            raise self._wrong(key, f"a list of whole numbers from {minimum} on")
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self._get(key)
        if not isinstance(value, list) or not all(_is_number(part) for part in value):
            raise self._wrong(key, "a list of finite numbers")
        return tuple(float(part) for part in value)

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, "a text")
        return value

    def choice(self, key: str, allowed: Sequence[Choice]) -> Choice:
        value = self._get(key)
        for one in allowed:
            if value == one:
                return one
        raise self._wrong(key, " or ".join(map(repr, allowed)))

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self._get(key)
        if not isinstance(value, Mapping):
            raise self._wrong(key, "an object")
        return value


Value = TypeVar("Value", int, float)


def _three(values: tuple[Value, ...], key: str) -> tuple[Value, Value, Value]:
    if len(values) != 3:
        raise ValueError(f"{key} has {len(values)} values, but must have 3")
    return values[0], values[1], values[2]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _priors(values: Mapping[str, Any], sizes: Sequence[int]) -> dict[int, tuple[float, ...]]:
    if set(values) != {str(size) for size in sizes}:
        raise ValueError(
            f"training_prior is for pool sizes {sorted(values)}, but pool_sizes is {list(sizes)}"
        )
    priors = {size: _Reader(values, "training_prior.").numbers(str(size)) for size in sizes}
    for size, shares in priors.items():
        if len(shares) != size + 1 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise ValueError(f"training_prior.{size} must be {size + 1} shares with sum 1; got {shares}")
    return priors


def _glance_record(values: _Reader) -> GlanceRecord | None:
    if values.is_null("glance"):
        return None
    read = _Reader(values.mapping("glance"), "glance.")
    return GlanceRecord(read.whole("shrink"), None if read.is_null("stop") else read.text("stop"))


def read_training_shapes(values: Mapping[str, Any]) -> TrainingShapes | None:
    """What the configuration of a run or a bundle says under `training_shapes`; None if not known."""
    if _Reader(values).is_null("training_shapes"):
        return None
    read = _Reader(_Reader(values).mapping("training_shapes"), "training_shapes.")
    aspects = _three(read.numbers("aspects"), "training_shapes.aspects")
    return TrainingShapes(read.whole("images"), read.whole("squares", minimum=0), aspects)


def _file_records(values: Mapping[str, Any]) -> dict[str, FileRecord]:
    records = {}
    for name in values:
        entry = _Reader(_Reader(values, "files.").mapping(name), f"files.{name}.")
        digest = entry.text("sha256")
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError(f"files.{name}.sha256 is not 64 hexadecimal digits")
        records[name] = FileRecord(digest, entry.whole("bytes", minimum=0))
    return records
