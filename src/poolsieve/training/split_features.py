"""The images of each split as training takes them: features after the front, cached, or views drawn anew."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.images.datasets import ImageDataset
from poolsieve.networks import SplitBackbone
from poolsieve.progress import Reporter
from poolsieve.training.extractors import front_extractor, tail_extractor
from poolsieve.training.features import ViewSet, cache_features, hash_weights
from poolsieve.training.inputs import CachedInputs, FreshInputs, ImageInputs, Inputs
from poolsieve.training.sampling import epoch_generator
from poolsieve.training.settings import TrainingSettings
from poolsieve.training.workload import features_part, views_part

ROTATION = 30.0
"""Degrees by which validation and test images are turned at most if the settings say so."""


@dataclass(frozen=True)
class SplitFeatures:
    """Gives the images of a run's splits.

    Attributes:
        backbone: The network, as it is when something is asked for.
        dataset: The images.
        settings: The settings.
        cache_dir: Folder of all caches.
        reporter: Told how far it is.
    """

    backbone: SplitBackbone
    dataset: ImageDataset
    settings: TrainingSettings
    cache_dir: Path
    reporter: Reporter

    def views(self, split: str) -> ViewSet:
        """Many views of training images, one of the others."""
        settings = self.settings
        views = ViewSet(self.backbone.input_size, settings.resize_mode or "pad", seed=settings.seed)
        if split == "train":
            return replace(views, random_views=settings.views - 1, settings=settings.view_settings)
        return replace(views, rotation=ROTATION) if settings.rotate_test else views

    def images(self, split: str) -> ImageInputs:
        """Images that are read and varied anew for every batch."""
        preprocessing = self.backbone.preprocessing
        return ImageInputs(self.dataset, split, self.views(split), preprocessing.mean, preprocessing.scale)

    def cached(self, split: str, stop: str | None = None, views: ViewSet | None = None) -> CachedInputs:
        """Features, cached or made now.

        Args:
            split: Which images.
            stop: The cut point after which they are taken; None for the backbone's cut.
            views: Which views of them; None for the usual ones.
        """
        backbone, tuned = self.backbone, self.settings.tune_from
        stop, views = stop or backbone.cut, views or self.views(split)
        earlier = None
        if tuned is not None and stop != tuned:  # the layers before stayed as they are, as did their features
            earlier = self.cached(split, tuned, views).array
            extract = tail_extractor(backbone.segment(tuned, stop), self._shape(tuned))
        else:
            extract = front_extractor(
                backbone.segment(None, stop), backbone.preprocessing, backbone.input_size
            )
        with self.reporter.part(features_part(split, stop)):
            array = cache_features(
                self.dataset,
                split,
                views,
                extract,
                self._shape(stop),
                self._front_key(stop),
                self.cache_dir,
                self.reporter,
                earlier,
            )
        return CachedInputs(array, self.labels(split))

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
        settings, cut = self.settings, self.backbone.cut
        extract = front_extractor(self.backbone.front, self.backbone.preprocessing, self.backbone.input_size)

        def make(epoch: int) -> NDArray[np.float16]:
            seed = int(epoch_generator(settings.seed, f"{phase} fresh views", epoch).integers(2**62))
            views = replace(self.views("train"), seed=seed, random_views=settings.fresh_views, plain=False)
            now = folder / f"{phase}-{epoch}"
            for other in folder.glob("*"):
                if other != now:
                    shutil.rmtree(other)
            key, shape = self._front_key(cut), self._shape(cut)
            shares = epoch / settings.epochs, (epoch + 1) / settings.epochs
            with self.reporter.part(views_part(phase), *shares):
                return cache_features(self.dataset, "train", views, extract, shape, key, now, self.reporter)

        return FreshInputs(whole, make)

    def labels(self, split: str) -> NDArray[np.int64]:
        """Labels of a split's images.  # (images,)."""
        return self.dataset.labels[self.dataset.of_split(split)]

    def _front_key(self, stop: str) -> dict[str, Any]:
        """All that features after a cut point depend on, beside the images."""
        preprocessing = self.backbone.preprocessing
        return {
            "backbone": self.backbone.name,
            "cut": stop,
            "weights": hash_weights(self.backbone.segment(None, stop)),
            "mean": list(preprocessing.mean),
            "scale": list(preprocessing.scale),
        }

    def _shape(self, stop: str) -> tuple[int, int, int]:
        channels, height, width = self.backbone.stage_shapes[stop]
        return channels, height, width
