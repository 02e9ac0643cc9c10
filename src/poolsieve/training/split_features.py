"""The images of each split as training takes them: features after the front, cached, or views drawn anew.

With the front frozen, training the backs needs only its outputs. They are computed once and kept on disk in
half precision (see `poolsieve.row_cache`), several augmented views of each training image and one plain view
of the others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from poolsieve.folders import lock_folder
from poolsieve.images.datasets import ImageDataset
from poolsieve.networks import SplitBackbone
from poolsieve.networks.weights import hash_weights
from poolsieve.progress import Reporter
from poolsieve.row_cache import RowCache
from poolsieve.training.extractors import front_extractor, require_finite, tail_extractor
from poolsieve.training.inputs import CachedInputs, FreshInputs, ImageInputs, Inputs, ViewSet
from poolsieve.training.sampling import epoch_generator
from poolsieve.training.settings import TrainingSettings
from poolsieve.training.teaching import Teacher
from poolsieve.training.workload import features_part, views_part

BATCH_VIEWS = 12
"""Inputs in one pass through the front: few, so that the early wide maps stay in the processor's cache."""


@dataclass(frozen=True)
class SplitFeatures:
    """Gives the images of a run's splits.

    Attributes:
        backbone: The network, as it is when something is asked for.
        dataset: The images.
        settings: The settings.
        cache_dir: Folder of all caches.
        reporter: Told how far it is.
        teacher: Judges training images, if there is one.
    """

    backbone: SplitBackbone
    dataset: ImageDataset
    settings: TrainingSettings
    cache_dir: Path
    reporter: Reporter
    teacher: Teacher | None = None

    def views(self, split: str) -> ViewSet:
        """Many views of training images, one of the others."""
        settings = self.settings
        views = ViewSet(self.backbone.input_size, settings.resize_mode or "pad", seed=settings.seed)
        if split == "train":
            return replace(views, random_views=settings.views - 1, settings=settings.view_settings)
        return views

    def images(self, split: str) -> ImageInputs:
        """Images that are read and varied anew for every batch."""
        teacher = self.teacher if split == "train" else None
        return ImageInputs(self.dataset, split, self.views(split), self.backbone.preprocessing, teacher)

    def cached(self, split: str, stop: str | None = None, views: ViewSet | None = None) -> CachedInputs:
        """Features, cached or made now.

        Args:
            split: Which images.
            stop: The cut point after which they are taken; None for the backbone's cut.
            views: Which views of them; None for the usual ones.

        Raises:
            OSError: If the disk is too small; the message names what is needed and what is free.
        """
        tuned, stop, views = self.settings.tune_from, stop or self.backbone.cut, views or self.views(split)
        earlier = None
        if tuned is not None and stop != tuned:  # the layers before stayed as they are, as did their features
            earlier = self.cached(split, tuned, views).array
        with self.reporter.part(features_part(split, stop)):
            array = self._features(split, stop, views, self.cache_dir, earlier)
        taught = self._taught(self.teacher, views) if self.teacher is not None and split == "train" else None
        return CachedInputs(array, self.dataset.labels[self.dataset.of_split(split)], taught)

    def before_learning(self, split: str) -> Inputs:
        """What the learning part of the front takes: cached features, or images."""
        tuned = self.settings.tune_from
        return self.images(split) if tuned is None else self.cached(split, tuned)

    def fresh(self, whole: CachedInputs, phase: str, folder: Path) -> FreshInputs:
        """Training images after the frozen front, in views that depend on the seed, the phase and the epoch.

        Args:
            whole: Cached features of the training images.
            phase: What is trained.
            folder: Holds the features of one epoch at a time; an interrupted epoch finds them there again.
        """
        settings = self.settings

        def make(epoch: int) -> NDArray[np.float16]:
            seed = int(epoch_generator(settings.seed, f"{phase} fresh views", epoch).integers(2**62))
            views = replace(self.views("train"), seed=seed, random_views=settings.fresh_views, plain=False)
            now = folder / f"{phase}-{epoch}"
            for other in folder.glob("*"):
                if other != now:
                    shutil.rmtree(other)
            shares = epoch / settings.epochs, (epoch + 1) / settings.epochs
            with self.reporter.part(views_part(phase), *shares):
                return self._features("train", self.backbone.cut, views, now)

        return FreshInputs(whole, make)

    def _features(
        self,
        split: str,
        stop: str,
        views: ViewSet,
        cache_dir: Path,
        earlier: NDArray[np.float16] | None = None,
    ) -> NDArray[np.float16]:
        """Features after a cut point, mapped into memory; what is not cached is made first.

        Those of the same views after `tune_from` may be given, to go on from rather than from the images.
        All arrays have the shape (images, views, H, W, C).
        """
        dataset, backbone, positions = self.dataset, self.backbone, self.dataset.of_split(split)
        channels, height, width = backbone.stage_shapes[stop]
        row = (views.views, height, width, channels)
        description = {
            "content": dataset.content_hash(split),
            "views": asdict(views),
            "network": self._front_key(stop),
            "shape": [len(positions), *row],
        }
        folder = RowCache.folder_below(cache_dir, description)
        cache = RowCache(folder, description, len(positions), {"features": np.dtype(("<f2", row))})
        name = f"features of {split} ({len(positions)} images x {views.views} views)"
        if (arrays := cache.open()) is not None:
            self.reporter.line(f"{name}: from {folder}")
            return arrays["features"]
        tuned = self.settings.tune_from
        if earlier is not None and tuned is not None:
            extract = tail_extractor(backbone.segment(tuned, stop), backbone.stage_shapes[tuned])
        else:
            front = backbone.segment(None, stop)
            extract = front_extractor(front, backbone.preprocessing, backbone.input_size)

        def features_of_few(rows: slice) -> dict[str, NDArray[np.float16]]:
            if earlier is not None:
                inputs: NDArray[Any] = np.array(earlier[rows]).reshape(-1, *earlier.shape[2:])
            else:
                chosen = ((dataset.files[i], dataset.digests[i]) for i in positions[rows])
                inputs = np.concatenate([views.render(*image) for image in chosen])
            features = extract(inputs)
            require_finite(features)
            return {"features": features.reshape(-1, *row)}

        def compute(block: slice) -> Iterator[dict[str, NDArray[np.float16]]]:
            step = max(1, BATCH_VIEWS // views.views)
            starts = range(block.start, block.stop, step)
            yield from workers.map(features_of_few, [slice(i, min(i + step, block.stop)) for i in starts])

        waiting = f"{name}: waiting for another run that makes them in {folder}"
        # A thread per core with images of its own needs no barrier after every layer, as torch's threads do.
        with (
            lock_folder(folder, on_wait=lambda: self.reporter.line(waiting)),
            ThreadPoolExecutor(
                len(os.sched_getaffinity(0)), initializer=torch.set_num_threads, initargs=(1,)
            ) as workers,
        ):
            return cache.fill(name, compute, self.reporter)["features"]

    def _taught(self, teacher: Teacher, views: ViewSet) -> NDArray[np.float32]:
        """What the teacher says of views of all training images, cached.  # (images, views)."""
        dataset, positions = self.dataset, self.dataset.of_split("train")
        description = {
            "content": dataset.content_hash("train"),
            "views": asdict(views),
            "teacher": teacher.bundle.hash,
        }
        folder = RowCache.folder_below(self.cache_dir, description)
        columns = {"taught": np.dtype(("<f4", (views.views,)))}
        cache = RowCache(folder, description, len(positions), columns)
        if (arrays := cache.open()) is not None:
            return arrays["taught"]

        def compute(block: slice) -> Iterator[dict[str, NDArray[np.float32]]]:
            images = [(dataset.files[i], dataset.digests[i]) for i in positions[block]]
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as readers:
                for rendered in readers.map(lambda image: views.render(*image), images):
                    yield {"taught": teacher.logits(rendered)[None]}

        name = f"the teacher's logits ({len(positions)} images x {views.views} views)"
        with lock_folder(folder):
            return cache.fill(name, compute, self.reporter)["taught"]

    def _front_key(self, stop: str) -> dict[str, Any]:
        """All that features after a cut point depend on, beside the images."""
        preprocessing = self.backbone.preprocessing
        return {
            "backbone": self.backbone.name,
            "cut": stop,
            "shrink": self.backbone.shrink,
            "weights": hash_weights(self.backbone.segment(None, stop)),
            "mean": list(preprocessing.mean),
            "scale": list(preprocessing.scale),
        }
