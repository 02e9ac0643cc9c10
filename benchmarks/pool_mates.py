"""Bad images among chosen pool-mates: what each scheme finds and flags, and what that costs.

Firearms of the test split that the individual network flags stand in a chunk of 100 images each, whose
others are

- ordinary ones;
- 5 or 20 frames of a burst of the same firearm (crops, brightness, JPEG), and ordinary ones;
- 29 other firearms, and ordinary ones;
- 20 masks, and ordinary ones. Masks are images of the validation split that the individual network clears:
  of the --candidates that look worst to the head, those that most raise what is read of pools with a firearm.

All schemes are told a prevalence of .01. The second table is about chunks as they were to be expected, where
bad images are as frequent as stated: there the schemes must cost what they always do.

    python benchmarks/pool_mates.py --data ../shared/data/tasks/firearms.csv
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.engines import open_engine
from poolsieve.engines.engine import Engine
from poolsieve.evaluation.recorded_networks import ImageRecords, RecordedNetworks
from poolsieve.images.datasets import ImageDataset, load_dataset
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import plain_view
from poolsieve.planning.choosing import choose_scheme
from poolsieve.planning.plan_controller import PlanController
from poolsieve.schemes import (
    Chunk,
    CostMeter,
    LikelihoodModel,
    Scheme,
    decoded_pools,
    look_alikes,
    make_scheme,
)
from poolsieve.schemes.look_alikes import find_groups

CHUNK, FRAMES, FEW_FRAMES, SIZE = 100, 20, 5, 8
PREVALENCE = 0.01
SHARE_BAD = 0.3
EXPECTED = (0.001, 0.01, 0.05)
SEARCH_POOLS = 12
"""Pools that a candidate for a mask is tried in."""
Numbers = NDArray[np.intp]


@dataclass(frozen=True)
class Images:
    """Recorded images, by their numbers in the records.

    Attributes:
        targets: Firearms of the test split that are to be found.  # (targets,)
        frames: Frames of a burst of each.  # (targets, 20)
        firearms: All that were taken of the test split, targets included.
        ordinary: Of the test split.
        search_firearms: Of the validation split.
        search_ordinary: Of the validation split, and cleared by the individual network; the worst by the head
            come first.
    """

    targets: Numbers
    frames: Numbers
    firearms: Numbers
    ordinary: Numbers
    search_firearms: Numbers
    search_ordinary: Numbers


@dataclass(frozen=True)
class Judged:
    """What a scheme did with chunks; as text a row of a table.

    Attributes:
        found: Images that were to be found and were.
        sought: Images that were to be found.
        clean_flagged: Share of clean images that were flagged.
        cost: As a share of individual tests.
        notes: Chunks with a note.
        chunks: All chunks.
    """

    found: int
    sought: int
    clean_flagged: float
    cost: float
    notes: int
    chunks: int

    def __str__(self) -> str:
        return (
            f"{self.found / self.sought:.2f} of {self.sought} | {self.clean_flagged:.3f} | {self.cost:.3f} "
            f"| {self.notes} of {self.chunks}"
        )


def main() -> None:
    """Measure and print."""
    given = _arguments()
    bundle = load_bundle(given.bundle)
    if bundle.config.merge != "gated" or SIZE not in bundle.config.pool_sizes:
        raise SystemExit(f"{bundle.name} has no gate or no network for pools of {SIZE}")
    bench = Bench(bundle, open_engine(bundle, threads=given.threads), alike=not given.without_check)
    images = bench.take(load_dataset(given.data), given.targets)
    masks = bench.find_masks(images, given.candidates)
    schemes = schemes_by_name(bundle, given.schemes)
    if given.without_check:
        patch.object(decoded_pools, "find_surprise", return_value=None).start()
    print(f"{len(images.targets)} chunks of {CHUNK} images each\n")
    print("| among | scheme | found | clean flagged | cost | chunks with a note |\n|---|---|---|---|---|---|")
    for among, chunks in _cases(images, masks).items():
        for name, scheme in schemes.items():
            print(f"| {among} | {name} | {bench.judge(scheme, chunks)} |", flush=True)
    if given.expected:
        print("\n| prevalence | scheme | bad found | clean flagged | cost | chunks with a note |")
        print("|---|---|---|---|---|---|")
    for prevalence in EXPECTED if given.expected else ():
        chunks = list(_expected(images, prevalence, given.expected))
        for name, scheme in schemes_by_name(bundle, ["oneshot mip", "oneshot bp"], prevalence).items():
            print(f"| {prevalence} | {name} | {bench.judge(scheme, chunks, all_bad=True)} |", flush=True)


class Bench:
    """Records images and judges chunks of them.

    Args:
        bundle: The bundle.
        engine: Runs it.
        alike: Judge images that look alike once.
    """

    def __init__(self, bundle: Bundle, engine: Engine, *, alike: bool) -> None:
        self._alike = alike
        self._bundle, self._engine = bundle, engine
        self._likelihoods = LikelihoodModel(bundle.calibration)
        self._parts: list[ImageRecords] = []
        self._networks: RecordedNetworks | None = None
        self._files: dict[int, Path] = {}
        self._ordinary: set[int] = set()

    def take(self, dataset: ImageDataset, targets: int) -> Images:
        """Record what is needed of a data set."""
        rng = np.random.default_rng(0)

        def some(split: str, label: int, number: int) -> Numbers:
            rows = np.flatnonzero((dataset.splits == split) & (dataset.labels == label))
            rows = rng.permutation(rows)[:number]
            taken = self.record([read_image(dataset.files[row]) for row in rows], clean=not label)
            self._files |= {int(k): dataset.files[row] for k, row in zip(taken, rows, strict=True)}
            return taken

        firearms, ordinary = some("test", 1, max(4 * targets, CHUNK)), some("test", 0, 700)
        hunted, looked_at = some("val", 1, 100), some("val", 0, len(dataset))
        chosen = firearms[self.scores(firearms) > 0.5][:targets]
        frames = np.stack([self._burst_of(target) for target in chosen])
        cleared = looked_at[self.scores(looked_at) < 0.5]
        cleared = cleared[np.argsort(self._records().head_logits[cleared])[::-1]]
        return Images(chosen, frames, firearms, ordinary, hunted[self.scores(hunted) > 0.5], cleared)

    def _groups(self, numbers: Numbers) -> Numbers:
        """Who looks alike of recorded images, which stand for their features."""
        return find_groups(self._records().features[numbers]) if self._alike else np.arange(len(numbers))

    def _burst_of(self, image: int) -> Numbers:
        """Frames of one image, as if it had been photographed several times in a row."""
        rng = np.random.default_rng([1, image])
        return self.record([later_frame(read_image(self._files[int(image)]), rng) for _ in range(FRAMES)])

    def find_masks(self, images: Images, candidates: int) -> Numbers:
        """The candidates that raise readings most, the best first.  # (20,)."""
        rng = np.random.default_rng(2)
        tried = images.search_ordinary[:candidates]
        others = rng.choice(images.search_ordinary[candidates:], (SEARCH_POOLS, SIZE - 2))
        hunted = rng.choice(images.search_firearms, SEARCH_POOLS)
        records = self._records()
        raised = []
        for candidate in tried:
            pools = np.column_stack([hunted, np.full(SEARCH_POOLS, candidate), others])
            logits = self._engine.pooled(records.features, records.gates, pools, SIZE).logits
            table = self._likelihoods.of_pools(logits, np.full(SEARCH_POOLS, SIZE)).log_likelihoods
            assert table is not None
            likelihoods = np.exp(table[0] - table[0].max(axis=1, keepdims=True))
            raised.append(float((likelihoods @ np.arange(SIZE + 1) / likelihoods.sum(axis=1)).mean()))
        return tried[np.argsort(raised)[::-1][:FRAMES]]

    def judge(self, scheme: Scheme, chunks: list[Numbers], *, all_bad: bool = False) -> Judged:
        """What a scheme finds and flags.

        Args:
            scheme: How to decide.
            chunks: Each begins with the image that is to be found.
            all_bad: All bad images are to be found.
        """
        if self._networks is None:  # it remembers pools, which schemes with one design share
            self._networks = RecordedNetworks(self._records(), self._engine)
        meter = CostMeter(self._bundle.config.cost)
        sought, flagged, notes = [], [], 0
        for number, images in enumerate(chunks):
            places = np.arange(len(images))
            chunk = Chunk(
                self._networks,
                self._likelihoods,
                meter,
                images,  # type: ignore[arg-type]  # numbers in place of pixels
                places,
                len(images),
                gated=True,
            )
            with patch.object(look_alikes, "find_groups", self._groups):
                decision = scheme.decide(chunk, np.random.default_rng([3, number]))
            clean = np.isin(images, list(self._ordinary))
            sought += decision.flags[~clean if all_bad else slice(1)].tolist()
            flagged += decision.flags[clean].tolist()
            notes += decision.note is not None
        return Judged(sum(sought), len(sought), float(np.mean(flagged)), meter.share, notes, len(chunks))

    def record(self, pictures: list[Image.Image], *, clean: bool = False) -> Numbers:
        """Record pictures, which are to be flagged unless they are clean; gives their numbers."""
        config, engine = self._bundle.config, self._engine
        pixels = np.stack(
            [plain_view(picture, config.input_size, config.resize_mode) for picture in pictures]
        )
        features = engine.front(pixels).features.copy()
        head, output = engine.head(features), engine.individual(features)
        glances = engine.glance(pixels) if config.glance else np.zeros(len(pixels), np.float32)
        begin = sum(map(len, self._parts))
        parts = (head.gate, head.logits, output.logits, output.vectors, glances)
        self._parts.append(ImageRecords(features, *(part.copy() for part in parts)))
        numbers = np.arange(begin, begin + len(pixels))
        self._ordinary |= set(numbers.tolist()) if clean else set()
        self._networks = None  # which know what was recorded before
        return numbers

    def _records(self) -> ImageRecords:
        if len(self._parts) > 1:
            names = ("features", "gates", "head_logits", "logits", "vectors", "glances")
            joined = [np.concatenate([getattr(part, name) for part in self._parts]) for name in names]
            self._parts = [ImageRecords(*joined)]
        return self._parts[0]

    def scores(self, images: Numbers) -> NDArray[np.float64]:
        """What the individual network says of recorded images."""
        return self._likelihoods.image_scores(self._records().logits[images])


def later_frame(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The picture a little later: moved, nearer, in other light, compressed anew."""
    width, height = picture.size
    share = rng.uniform(0.9, 1)
    wide, high = int(width * share), int(height * share)
    left, top = int(rng.integers(0, width - wide + 1)), int(rng.integers(0, height - high + 1))
    cut = picture.crop((left, top, left + wide, top + high)).resize((width, height), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    ImageEnhance.Brightness(cut).enhance(rng.uniform(0.9, 1.1)).save(file, "JPEG", quality=80)
    return Image.open(file).convert("RGB")


def _cases(images: Images, masks: Numbers) -> dict[str, list[Numbers]]:
    """Chunks that begin with a target, by who else is in them."""
    cases: dict[str, list[Numbers]] = {}
    for number, target in enumerate(images.targets):
        rng = np.random.default_rng([4, number])
        others = rng.choice(images.firearms[images.firearms != target], round(SHARE_BAD * CHUNK) - 1, False)
        ordinary = rng.permutation(images.ordinary)
        for name, mates in {
            "ordinary images": ordinary[:0],
            f"{FEW_FRAMES} frames of its burst": images.frames[number, :FEW_FRAMES],
            f"{FRAMES} frames of its burst": images.frames[number],
            f"{SHARE_BAD:.0%} bad": others,
            f"{FRAMES} masks": masks,
        }.items():
            chunk = np.concatenate([[target], mates, ordinary[: CHUNK - 1 - len(mates)]])
            cases.setdefault(name, []).append(chunk)
    return cases


def _expected(images: Images, prevalence: float, chunks: int) -> Iterator[Numbers]:
    """Chunks whose images are bad with that probability."""
    for number in range(chunks):
        rng = np.random.default_rng([5, number])
        bad = rng.binomial(CHUNK, prevalence)
        firearms = rng.choice(images.firearms, bad, False)
        yield np.concatenate([firearms, rng.choice(images.ordinary, CHUNK - bad, False)])


def schemes_by_name(bundle: Bundle, names: list[str], prevalence: float = PREVALENCE) -> dict[str, Scheme]:
    sizes, found = bundle.config.pool_sizes, {}
    for name in names:
        if name == "auto":
            plans, _ = choose_scheme(bundle, name, None, None, {"prevalence": prevalence})
            assert not isinstance(plans, Scheme)
            found[name] = PlanController(plans, sizes, prevalence).scheme
        elif name == "individual":
            found[name] = make_scheme(name, sizes)
        else:
            kind, _, decoder = name.partition(" ")
            found[name] = make_scheme(kind, sizes, prevalence=prevalence, decoder=decoder or None)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", default="firearms")
    parser.add_argument("--data", type=Path, required=True, help="with the splits val and test")
    parser.add_argument("--targets", type=int, default=60, help="firearms to be found, a chunk for each")
    parser.add_argument("--candidates", type=int, default=100, help="among which masks are chosen")
    parser.add_argument("--expected", type=int, default=200, help="chunks at each prevalence as stated")
    parser.add_argument(
        "--without-check", action="store_true", help="what is read and who looks alike is not looked at"
    )
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument(
        "--schemes",
        nargs="+",
        default=["individual", "oneshot mip", "oneshot bp", "dorfman", "adaptive", "auto"],
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
