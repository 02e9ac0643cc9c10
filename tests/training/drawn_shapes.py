"""A small task drawn by the tests, red discs to be flagged and green squares not, and a network for it."""

import numpy as np
from drawn_weights import draw_weights
from PIL import Image, ImageDraw
from torch import nn

from poolsieve.networks import Preprocessing, SplitBackbone
from poolsieve.training import Optimization, TrainingSettings

SIZE = 32
NUMBERS = {"train": 48, "val": 24, "test": 24}


def draw_task(root, seed=0, numbers=NUMBERS):
    """Write `numbers[split]` images of each class into folders."""
    rng = np.random.default_rng(seed)
    for split, number in numbers.items():
        for name in ("clear", "flagged"):
            folder = root / split / name
            folder.mkdir(parents=True)
            for i in range(number):
                image = Image.fromarray(rng.integers(0, 90, (SIZE, SIZE, 3), dtype=np.uint8))
                x, y = (int(value) for value in rng.integers(2, 18, size=2))
                pen = ImageDraw.Draw(image)
                if name == "flagged":
                    pen.ellipse((x, y, x + 11, y + 11), fill=(220, 60, 40))
                else:
                    pen.rectangle((x, y, x + 11, y + 11), fill=(60, 220, 40))
                image.save(folder / f"{i}.png")
    return root


def small_backbone(cut="second"):
    """Four small stages with fixed random weights."""

    def stage(inputs, outputs, stride):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )

    stages = {
        "first": stage(3, 8, 2),
        "second": stage(8, 16, 2),
        "third": stage(16, 24, 1),
        "fourth": stage(24, 32, 2),
    }
    backbone = SplitBackbone(
        "small", stages, nn.Linear(32, 10), cut=cut, input_size=SIZE, preprocessing=Preprocessing()
    )
    return draw_weights(backbone)


SHORT_SETTINGS = TrainingSettings(
    pool_sizes=(4,),
    views=1,
    individual_epochs=4,
    epochs=1,
    pools_per_epoch=64,
    batch_images=16,
    batch_pools=16,
    validation_pools=50,
    test_pools=50,
    optimization=Optimization(learning_rate=5e-3, pretrained_rate=1e-3, averaging=0.8, dropout=0.0),
)
"""A training of seconds, after which the individual network knows most shapes."""
