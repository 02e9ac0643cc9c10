"""How much faster a pooled training step is when the front features are cached.

Four ways to train the counting network (QPNN) on the same pools, step by step in one run, so that a busy
machine slows all of them alike:

* whole: the paper's way. Every image of every pool goes through the front again, and the whole network
  learns.
* frozen: the same with a front that does not learn, but runs at every step.
* cached, max: what `poolsieve train` does, through its own `CountingLearner`: front features are read from a
  memory-mapped file of half-precision numbers, and AdamW moves the back.
* cached, gated: the same with the gate in front of the maximum, which learns too.

`poolsieve train` reads the next features while a step is made; here they are read before it. Images are made
up unless a folder is given. Decoding and transforming images is left out, which favours the ways that need
images at every step.

    python benchmarks/training.py --rounds 5
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from poolsieve.network_forms import Merge
from poolsieve.networks import PooledNetwork, SplitBackbone, load_backbone
from poolsieve.training import TrainingSettings
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.phases import make_optimizer
from poolsieve.training.pool_learners import CountingLearner
from poolsieve.training.sampling import Batch

DEMANDED = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--pool-size", type=int, default=8)
    parser.add_argument("--pools", type=int, default=8, help="pools in a step")
    parser.add_argument("--images", type=int, default=256, help="images to draw pools from")
    parser.add_argument("--folder", type=Path, help="take JPEG and PNG files below this folder as images")
    parser.add_argument("--rounds", type=int, default=5, help="times that each way is timed")
    parser.add_argument("--steps", type=int, default=3, help="cached steps in a round; the others make one")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    backbone = load_backbone(options.backbone)
    in_channels_last(backbone)
    pixels = (
        made_up_images(options.images, backbone.input_size, rng)
        if options.folder is None
        else read_images(options.folder, options.images, backbone.input_size)
    )
    bad = torch.from_numpy(rng.random(len(pixels)) < 0.3)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        cache = cache_features(backbone, pixels, Path(folder) / "features.npy")
        caching = (time.perf_counter() - started) / len(pixels)
        ways = training_ways(backbone, pixels, cache, bad, options.pool_size)
        times = measure(ways, rng, len(pixels), options)
    report(times, caching, options)


def made_up_images(count: int, size: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    return rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8)


def read_images(folder: Path, count: int, size: int) -> NDArray[np.uint8]:
    from PIL import Image

    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png"))[:count]
    if not paths:
        raise SystemExit(f"{folder} holds no JPEG or PNG file")
    return np.stack(
        [np.asarray(Image.open(p).convert("RGB").resize((size, size))).transpose(2, 0, 1) for p in paths]
    )


@torch.no_grad()
def cache_features(backbone: SplitBackbone, pixels: NDArray[np.uint8], path: Path) -> NDArray[np.float16]:
    """Front features of all images in a memory-mapped file, channels last.  # (n, H, W, C)."""
    channels, height, width = backbone.feature_shape
    cache = np.lib.format.open_memmap(path, "w+", np.float16, (len(pixels), height, width, channels))
    front = backbone.front
    for start in range(0, len(pixels), 32):
        features = front(network_input(backbone, pixels[start : start + 32]))
        cache[start : start + 32] = features.permute(0, 2, 3, 1).half().numpy()
    return cache


def in_channels_last(module: nn.Module) -> None:
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def network_input(backbone: SplitBackbone, pixels: NDArray[np.uint8]) -> Tensor:
    values = torch.from_numpy(pixels).float().contiguous(memory_format=torch.channels_last)
    return backbone.preprocessing(values)


Step = Callable[[NDArray[np.int64]], None]


def training_ways(
    backbone: SplitBackbone,
    pixels: NDArray[np.uint8],
    cache: NDArray[np.float16],
    bad: Tensor,
    pool_size: int,
) -> dict[str, Step]:
    """For each way a function that makes one step on the pools given as image numbers (pools, r)."""

    def through_front(learns: bool) -> Step:
        own = load_backbone(backbone.name)
        in_channels_last(own)
        network = PooledNetwork(own, pool_size, merge="max").train()
        front = own.front.train(learns)
        parameters = [*network.parameters(), *(front.parameters() if learns else [])]
        optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-4)

        def step(pools: NDArray[np.int64]) -> None:
            images = network_input(backbone, pixels[pools.ravel()])
            with torch.set_grad_enabled(learns):
                features = front(images)
            learn(network, optimizer, features, pools, bad)

        return step

    def from_cache(merge: Merge) -> Step:
        settings = TrainingSettings(pool_sizes=(pool_size,), merge=merge, validation_pools=9)
        network = PooledNetwork(backbone, pool_size, merge=merge)
        in_channels_last(network.train())
        inputs = CachedInputs(cache[:, None], bad.numpy().astype(np.int64))
        learner = CountingLearner(network, inputs, inputs, settings)
        optimizer = make_optimizer(network, learner.new_layers(), settings.optimization)

        def step(pools: NDArray[np.int64]) -> None:
            counts = inputs.labels[pools].sum(axis=1)
            made = learner.loss(learner.load([Batch(pools, counts, np.random.default_rng(0))]))
            optimizer.zero_grad()
            made.loss.backward()
            optimizer.step()

        return step

    return {
        "whole": through_front(learns=True),
        "frozen": through_front(learns=False),
        "cached, max": from_cache("max"),
        "cached, gated": from_cache("gated"),
    }


def learn(
    network: PooledNetwork,
    optimizer: torch.optim.Optimizer,
    features: Tensor,
    pools: NDArray[np.int64],
    bad: Tensor,
) -> None:
    flags = bad[torch.from_numpy(pools)]  # (pools, r)
    outputs = network(features, np.arange(pools.size).reshape(pools.shape))
    loss = cross_entropy(outputs.logits, flags.sum(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def measure(
    ways: dict[str, Step], rng: np.random.Generator, images: int, options: argparse.Namespace
) -> dict[str, NDArray[np.float64]]:
    """Seconds of one step of each way in each round, after one round that is thrown away."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(options.rounds + 1):
        for name, step in ways.items():
            steps = options.steps if name.startswith("cached") else 1
            tables = [rng.integers(images, size=(options.pools, options.pool_size)) for _ in range(steps)]
            started = time.perf_counter()
            for pools in tables:
                step(pools)
            if number:
                times[name].append((time.perf_counter() - started) / steps)
    return {name: np.array(values) for name, values in times.items()}


def report(times: dict[str, NDArray[np.float64]], caching: float, options: argparse.Namespace) -> None:
    print(
        f"{options.backbone}, {options.pools} pools of {options.pool_size} in a step, channels last, "
        f"{options.threads} threads, median of {options.rounds} rounds"
    )
    print(f"{'way':<14} {'ms a step':>10} {'pools/s':>8} {'against whole':>14} {'against frozen':>15}")
    for name, seconds in times.items():
        middle = float(np.median(seconds))
        ratios = [float(np.median(times[base] / seconds)) for base in ("whole", "frozen")]
        print(
            f"{name:<14} {middle * 1e3:>10.0f} {options.pools / middle:>8.1f} "
            f"{ratios[0]:>13.1f}× {ratios[1]:>14.1f}×"
        )
    print(f"caching takes {caching * 1e3:.1f} ms an image and view, once")
    least = min(float(np.median(times["whole"] / times[name])) for name in times if name.startswith("cached"))
    verdict = "reached" if least >= DEMANDED else "MISSED"
    print(f"cached steps are {least:.1f}× as fast as training the whole network ({DEMANDED:g}× {verdict})")


if __name__ == "__main__":
    main()
