"""All outlier readings of a bundle in one file of plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.outliers.reading import OutlierReading, within


@dataclass(frozen=True)
class OutlierReadings:
    """How the outputs of a bundle's networks are read.

    Attributes:
        individual: Of the individual network.
        counting: Of the counting networks, by pool size.
    """

    individual: OutlierReading
    counting: Mapping[int, OutlierReading]

    def __post_init__(self) -> None:
        if self.individual.outputs != 2:
            raise ValueError(f"single images have 2 labels, not {self.individual.outputs}")
        for size, reading in self.counting.items():
            if reading.outputs != size + 1:
                raise ValueError(f"the reading for pools of {size} is for {reading.outputs} counts")

    @property
    def width(self) -> int:
        """Length of the feature vectors."""
        return self.individual.mixture.width

    def to_bytes(self) -> bytes:
        """The content of the file."""
        from safetensors.numpy import save

        arrays = {f"individual.{name}": value for name, value in self.individual.to_arrays().items()}
        for size, reading in self.counting.items():
            arrays |= {f"counting-{size}.{name}": value for name, value in reading.to_arrays().items()}
        content: bytes = save({name: np.ascontiguousarray(value) for name, value in arrays.items()})
        return content

    @classmethod
    def from_bytes(cls, content: bytes) -> OutlierReadings:
        """The reverse of `to_bytes`.

        Raises:
            ValueError: It is no such file, a number is not finite, or arrays are missing or do not fit.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays: dict[str, NDArray] = load(content)
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"not a file of arrays ({error})") from error
        for name, values in arrays.items():
            if not np.isfinite(values).all():
                raise ValueError(f"{name!r} holds numbers that are not finite")
        groups = {name.split(".", 1)[0] for name in arrays}
        sizes = sorted(int(group.removeprefix("counting-")) for group in groups - {"individual"})
        if "individual" not in groups:
            raise ValueError("there is no reading of single images")
        counting = {size: OutlierReading.from_arrays(within(arrays, f"counting-{size}")) for size in sizes}
        return cls(OutlierReading.from_arrays(within(arrays, "individual")), counting)
