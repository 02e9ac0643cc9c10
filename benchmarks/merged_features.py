"""Why a pool with a single bad image is sometimes read as clean: merged features, with and without the gate.

Pools of seven photographs and one drawn firearm, all from the images of `make demo`, go through the front and
the gate of a bundle. The figure shows for two of them what the images look like, where the gate opens, two
channels of the front features, and the merged maps. The table tells for every drawn firearm how open its gate
is against that of photographs, how much of the merged map comes from it (each entry is one image's: that with
the largest value), and what the counting network reads in pools with it, beside what the individual network
says of the image alone.

    python examples/demo.py make build/drawn --images 120
    python benchmarks/merged_features.py build/drawn --figure docs/figures/merged-features.png
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.engines import open_engine
from poolsieve.engines.pool_merging import merge_block
from poolsieve.figures import new_figure, save_figure
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import plain_view
from poolsieve.schemes import LikelihoodModel

SIZE = 8
DRAWN = "drawn"
"""What the names of pictures with a drawn firearm say."""
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Measured:
    """What the networks say of the demo's images.

    Attributes:
        names: File names.
        pixels: As the network takes them.  # (n, S, S, 3)
        features: Front features.  # (n, C, H, W)
        gate: Openings between 0 and 1, and what is tallied.  # (n, 1 + K, H, W)
        scores: The individual network's.  # (n,)
    """

    names: list[str]
    pixels: NDArray[np.uint8]
    features: Floats
    gate: Floats
    scores: NDArray[np.float64]

    @property
    def opening(self) -> Floats:
        """How much of each location is let through.  # (n, 1, H, W)."""
        return self.gate[:, :1]

    @property
    def drawn(self) -> NDArray[np.intp]:
        """Numbers of the drawn firearms."""
        return np.flatnonzero([f"-{DRAWN}-" in name for name in self.names])

    @property
    def photographs(self) -> NDArray[np.intp]:
        """Numbers of the photographs that the individual network clears."""
        return np.setdiff1d(np.flatnonzero(self.scores < 0.5), self.drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="folder that `examples/demo.py make` made")
    parser.add_argument("--bundle", default="firearms")
    parser.add_argument("--pools", type=int, default=40, help="with each drawn firearm")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    bundle = load_bundle(options.bundle)
    if bundle.config.merge != "gated" or SIZE not in bundle.config.pool_sizes:
        parser.error(f"{bundle.name} has no gate or no network for pools of {SIZE}")
    engine = open_engine(bundle, "auto")
    likelihoods = LikelihoodModel(bundle.calibration)
    measured = measure(bundle, engine, likelihoods, sorted(options.images.glob("*.jpg")))
    found = print_table(measured, engine, likelihoods, options.pools)
    if options.figure is not None:
        known = measured.scores[measured.drawn] > 0.5
        if found[known].min() == found.max():  # pools find all that the individual network finds
            known[:] = True
        best, worst = np.argmax(found), np.argmin(np.where(known, found, np.inf))
        draw([measured.drawn[best], measured.drawn[worst]], measured, options.figure)


def measure(bundle: Bundle, engine: Any, likelihoods: LikelihoodModel, files: list[Path]) -> Measured:
    config = bundle.config
    pixels = np.stack([plain_view(read_image(file), config.input_size, config.resize_mode) for file in files])
    features = engine.front(pixels).features
    scores = likelihoods.image_scores(engine.individual(features).logits)
    return Measured([file.name for file in files], pixels, features, engine.head(features).gate, scores)


def won(values: Floats) -> NDArray[np.float64]:
    """Share of the merged entries that come from each image; entries that nobody fills count for nobody.

    Args:
        values: Features of a pool's images, gated or not.  # (r, C, H, W)
    """
    largest = values.max(axis=0)
    winners = values.argmax(axis=0)[largest > 0]
    shares: NDArray[np.float64] = np.bincount(winners, minlength=len(values)) / max(len(winners), 1)
    return shares


def print_table(
    measured: Measured, engine: Any, likelihoods: LikelihoodModel, pools: int
) -> NDArray[np.float64]:
    """Print what becomes of each drawn firearm in pools; gives the share of its pools read as > 0."""
    rng = np.random.default_rng(0)
    others = measured.opening[measured.photographs].mean()
    print(f"mean opening of the gate over all photographs: {others:.3f}; {pools} pools with each firearm")
    print("| drawn firearm | alone | opening | of merged, plain | of merged, gated | pools read as > 0 |")
    print("|---|---|---|---|---|---|")
    found = []
    for image in measured.drawn:
        table = np.array([[image, *rng.choice(measured.photographs, SIZE - 1, False)] for _ in range(pools)])
        plain = np.mean([won(measured.features[pool])[0] for pool in table])
        gated = np.mean([won(measured.features[pool] * measured.opening[pool])[0] for pool in table])
        logits = engine.pooled(measured.features, measured.gate, table, SIZE).logits
        read = likelihoods.of_pools(logits, np.full(len(logits), SIZE)).counts[0] > 0
        found.append(read.mean())
        kind = measured.names[image].partition(f"-{DRAWN}-")[2].removesuffix(".jpg")
        print(
            f"| {kind} | {measured.scores[image]:.3f} | {measured.opening[image].mean():.3f} "
            f"| {plain:.3f} | {gated:.3f} | {read.sum()} of {pools} |"
        )
    clean = np.array([rng.choice(measured.photographs, SIZE, False) for _ in range(pools * len(found))])
    logits = engine.pooled(measured.features, measured.gate, clean, SIZE).logits
    wrong = int((likelihoods.of_pools(logits, np.full(len(logits), SIZE)).counts[0] > 0).sum())
    print(f"pools of photographs only that were read as > 0: {wrong} of {len(clean)}")
    return np.array(found)


def draw(bad: list[np.intp], measured: Measured, path: Path) -> None:
    """Two pools with the same photographs: with the firearm that pools find best, and worst."""
    mates = np.random.default_rng(1).choice(measured.photographs, SIZE - 1, replace=False)
    channels = telling_channels(measured, mates)
    figure = new_figure(figsize=(13, 11.5), layout="constrained")
    parts: Any = figure.subfigures(2, 1, hspace=0.04)
    for part, image in zip(parts, bad, strict=True):
        pool = np.array([image, *mates])
        kind = measured.names[image].partition(f"-{DRAWN}-")[2].removesuffix(".jpg")
        part.suptitle(f"seven photographs and a drawn {kind}", fontsize=12)
        axes = part.subplots(4, SIZE + 2)
        features, gate = measured.features[pool], measured.opening[pool]
        merged = merge_block(features, None, np.arange(SIZE)[None])[0]
        kept = merge_block(features, gate, np.arange(SIZE)[None])[0]
        labels = ["image", "gate", *(f"channel {channel}" for channel in channels)]
        for row, label in enumerate(labels):
            axes[row, 0].set_ylabel(label)
        for column in range(SIZE):
            axes[0, column].imshow(measured.pixels[pool[column]])
            axes[1, column].imshow(gate[column, 0], vmin=0, vmax=1, cmap="viridis")
        for row, channel in enumerate(channels, 2):
            top = float(merged[channel].max())
            for column in range(SIZE):
                axes[row, column].imshow(features[column, channel], vmin=0, vmax=top, cmap="magma")
            axes[row, SIZE].imshow(merged[channel], vmin=0, vmax=top, cmap="magma")
            axes[row, SIZE + 1].imshow(kept[channel], vmin=0, vmax=top, cmap="magma")
        axes[1, SIZE].axis("off")
        axes[1, SIZE + 1].imshow(gate.max(axis=0)[0], vmin=0, vmax=1, cmap="viridis")
        axes[0, SIZE].axis("off")
        axes[0, SIZE + 1].axis("off")
        axes[2, SIZE].set_title("merged,\nplain", fontsize=9)
        axes[2, SIZE + 1].set_title("merged,\ngated", fontsize=9)
        axes[1, SIZE + 1].set_title("all gates", fontsize=9)
        for axis in axes.flat:
            axis.set_xticks([])
            axis.set_yticks([])
    print(f"wrote {save_figure(figure, path)}")


def telling_channels(measured: Measured, mates: NDArray[np.intp]) -> list[int]:
    """The two channels in which drawn firearms stand out most against these photographs, on average."""
    ahead = measured.features[measured.drawn] - measured.features[mates].max(axis=0)
    spread = measured.features.std(axis=(0, 2, 3)) + 1e-6
    gain = np.clip(ahead, 0, None).mean(axis=(0, 2, 3)) / spread
    return [int(channel) for channel in np.argsort(-gain)[:2]]


if __name__ == "__main__":
    main()
