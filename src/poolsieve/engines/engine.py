"""What every engine does: run a bundle's graphs on any number of rows, a batch at a time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.bundles import Bundle
from poolsieve.bundles.config import FRONT_GRAPH, GLANCE_GRAPH, HEAD_GRAPH, INDIVIDUAL_GRAPH
from poolsieve.bundles.graph_specs import TensorSpec, graph_specs
from poolsieve.designs.pool_pairs import pair_places
from poolsieve.engines.buffers import Buffers
from poolsieve.engines.pool_merging import checked_pools, merge_block
from poolsieve.outliers import OutlierReading

Precision = Literal["fp32", "low"]
Batches = Iterable[tuple[slice, np.ndarray]]
Run = Callable[[Batches, Sequence[np.ndarray]], None]
"""Takes batches of a graph's input with the rows that they are, and writes its outputs to those rows."""


@dataclass(frozen=True)
class FrontFeatures:
    """Front features of images.

    Attributes:
        features: The paper's IFM of each image.  # (N, C, H, W)
    """

    features: NDArray[np.float32]


@dataclass(frozen=True)
class HeadOutput:
    """What gate and cheap head say of images.

    Attributes:
        gate: How much of each location to let through, in (0, 1), and below it K maps, with some bundles,
            that are summed over a pool.  # (N, 1 + K, H, W)
        logits: How bad each image looks.  # (N,)
    """

    gate: NDArray[np.float32]
    logits: NDArray[np.float32]


@dataclass(frozen=True)
class NetworkOutput:
    """What an individual or counting network says.

    Attributes:
        logits: Unnormalised log-probabilities of clean and bad, or of the counts 0 … r.  # (N, outputs)
        vectors: The vectors before the final layer.  # (N, F)
        counts: What is read, where that is not the arg max of the logits.  # (N,)
    """

    logits: NDArray[np.float32]
    vectors: NDArray[np.float32]
    counts: NDArray[np.int64] | None = None


class Engine(ABC):
    """Runs the networks of a bundle. Graphs are compiled when first used.

    Threads may share it: a graph that one of them runs makes the others wait.

    Args:
        bundle: What to run.
        threads: Threads to compute on; None lets the engine choose.
        precision: "fp32", or "low" for half precision where the processor has it.
        batch_size: Images or pools that go through a graph at once; None takes what suits the engine.

    Attributes:
        name: What `open_engine` calls it.
    """

    name: str

    def __init__(
        self,
        bundle: Bundle,
        *,
        threads: int | None = None,
        precision: Precision = "fp32",
        batch_size: int | None = None,
    ) -> None:
        for option, value in (("threads", threads), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise ValueError(f"{option} is {value}; give a whole number from 1 on")
        self.bundle = bundle
        self.threads = threads
        self.precision = precision
        self.batch_size = batch_size
        self._specs = graph_specs(bundle.config)
        self._graphs: dict[str, Run] = {}
        self._buffers = Buffers()
        self._lock = threading.Lock()  # graphs have one set of requests, and their outputs one set of buffers
        self._open()

    def _open(self) -> None:  # noqa: B027 - an engine may do nothing here
        """Make ready what all graphs need; raises ValueError where the engine cannot do what was asked."""

    @abstractmethod
    def _compile(self, file: str) -> Run:
        """Make a graph ready to run."""

    def _default_batch(self, file: str) -> int:
        """Rows that go through a graph at once if the caller does not say."""
        return 8

    def prepare(self, files: Iterable[str]) -> None:  # noqa: B027 - an engine may do nothing here
        """Begin to compile graphs that will be used, in that order, if the engine can do so meanwhile.

        Args:
            files: Files of the graphs. What is wrong with one is said when it is used.
        """

    def front(self, images: NDArray[np.uint8]) -> FrontFeatures:
        """Front features of images.

        Args:
            images: RGB, squared and resized.  # (N, S, S, 3)
        """
        images = _checked(images, self._specs[FRONT_GRAPH].input)
        (features,) = self._run(FRONT_GRAPH, len(images), lambda rows: images[rows])
        return FrontFeatures(features)

    def glance(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """How bad images look at a glance, as logits.  # (N,).

        Args:
            images: RGB, squared and resized; of a joined bundle their front features.  # (N, S, S, 3)
        """
        if self.bundle.config.glance is None:
            raise ValueError(f"the bundle {self.bundle.name} has no glance; use a scheme without it")
        images = _checked(images, self._specs[GLANCE_GRAPH].input)
        (logits,) = self._run(GLANCE_GRAPH, len(images), lambda rows: images[rows])
        return logits

    def head(self, features: NDArray[np.float32]) -> HeadOutput:
        """Gate and cheap head of images.

        Args:
            features: Their front features.  # (N, C, H, W)
        """
        features = _checked(features, self._specs[HEAD_GRAPH].input)
        gate, logits = self._run(HEAD_GRAPH, len(features), lambda rows: features[rows])
        return HeadOutput(gate, logits)

    def individual(self, features: NDArray[np.float32] | NDArray[np.uint8]) -> NetworkOutput:
        """The individual network on images, from their front features on.

        With an outlier bundle the logits are those that its readings combine with the density of vectors.

        Args:
            features: Their front features, or the images as for `front` if the bundle is joined.
                # (N, C, H, W)
        """
        features = _checked(features, self._specs[INDIVIDUAL_GRAPH].input)
        outliers = self.bundle.outliers
        logits, vectors = self._run(INDIVIDUAL_GRAPH, len(features), lambda rows: features[rows])
        return _read(NetworkOutput(logits, vectors), None if outliers is None else outliers.individual)

    def pooled(
        self,
        features: NDArray[np.float32],
        gate: NDArray[np.float32] | None,
        pools: ArrayLike,
        pool_size: int,
    ) -> NetworkOutput:
        """The counting network on pools. Merged maps exist for one batch of pools at a time.

        Args:
            features: Front features of n images.  # (n, C, H, W)
            gate: Their gates from `head` if the bundle merges gated features, and else None.
                # (n, 1 + K, H, W)
            pools: Image numbers of each pool, −1 where a place is empty.  # (m, up to pool_size)
            pool_size: Which counting network; one that serves several sizes gives the outputs of this one.
        """
        config = self.bundle.config
        if pool_size not in config.pool_sizes:
            raise ValueError(
                f"the bundle {self.bundle.name} reads pools of {', '.join(map(str, config.pool_sizes))}, "
                f"not of {pool_size}"
            )
        file = config.counting_graph(pool_size)
        features = _checked(features, self._specs[HEAD_GRAPH].input)
        if (gate is None) == (config.merge == "gated"):
            raise ValueError(
                f"the bundle merges by {config.merge!r}: "
                + ("give the gate that `head` gives" if gate is None else "give no gate")
            )
        if gate is not None:
            gate = _checked(gate, self._specs[HEAD_GRAPH].outputs[0])
            if len(gate) != len(features):
                raise ValueError(f"features of {len(features)} images, but gates of {len(gate)}")
        table = checked_pools(pools, len(features), pool_size)
        if config.merge == "tree":
            table = pair_places(table, pool_size, config.depths).reshape(len(table), pool_size // 2, 2)
        logits, vectors = self._run(file, len(table), lambda rows: merge_block(features, gate, table[rows]))
        logits = np.ascontiguousarray(logits[:, : pool_size + 1])
        outliers = self.bundle.outliers
        reading = None if outliers is None else outliers.counting[pool_size]
        return _read(NetworkOutput(logits, vectors), reading)

    def _opened(self, file: str) -> Run:
        try:
            return self._compile(file)
        except (ValueError, OSError):
            raise
        except Exception as error:  # engines have errors of their own, some derived from nothing else
            raise ValueError(f"{self.name} cannot read {self.bundle.path / file}: {error}") from error

    def _run(self, file: str, count: int, batch: Callable[[slice], np.ndarray]) -> list[np.ndarray]:
        """Outputs of a graph on `count` rows, of which `batch` gives those of a slice."""
        with self._lock:
            outputs = [
                self._buffers.empty((count, *output.shape), output.dtype)
                for output in self._specs[file].outputs
            ]
            if count == 0:
                return outputs
            if file not in self._graphs:
                self._graphs[file] = self._opened(file)
            self._run_batches(file, count, batch, outputs)
            return outputs

    def _run_batches(
        self, file: str, count: int, batch: Callable[[slice], np.ndarray], outputs: list[np.ndarray]
    ) -> None:
        size = self.batch_size or self._default_batch(file)
        slices = (slice(begin, min(begin + size, count)) for begin in range(0, count, size))
        try:
            self._graphs[file](((rows, batch(rows)) for rows in slices), outputs)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            raise ValueError(f"{self.name} cannot run {self.bundle.path / file}: {error}") from error
        for spec, output in zip(self._specs[file].outputs, outputs, strict=True):
            if not _all_finite(output):
                # No image makes a sound network do that, so it is not an error of one image.
                raise ValueError(
                    f"{self.bundle.path / file} gives {spec.name} that are not finite numbers, under "
                    f"{self.name}; nothing it says can be believed: get the bundle anew, or train it again"
                )


def _all_finite(values: np.ndarray) -> bool:
    """In one pass and without another array, as the front's features are many: a sum shows all."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return True
    return bool(np.isfinite(values).all())  # large numbers may have a sum beyond the range


def one_by_one(compute: Callable[[np.ndarray], Sequence[np.ndarray]]) -> Run:
    """Runs batches one after the other with a function that takes a batch and gives its outputs."""

    def run(batches: Batches, outputs: Sequence[np.ndarray]) -> None:
        for rows, batch in batches:
            for output, part in zip(outputs, compute(batch), strict=True):
                if part.shape != output[rows].shape:  # else numpy might repeat it to fit
                    raise ValueError(f"the network gives {part.shape} and not {output[rows].shape}")
                output[rows] = part

    return run


def _read(output: NetworkOutput, reading: OutlierReading | None) -> NetworkOutput:
    if reading is None:
        return output
    logits, counts = reading.read(output.logits, output.vectors)
    return NetworkOutput(logits, output.vectors, counts)


def _checked(values: np.ndarray, spec: TensorSpec) -> np.ndarray:
    array = np.asarray(values)
    if array.shape[1:] != spec.shape or array.ndim != len(spec.shape) + 1 or array.dtype != spec.dtype:
        raise ValueError(f"the network takes {spec}; got {array.dtype} {array.shape}")
    return np.ascontiguousarray(array)
