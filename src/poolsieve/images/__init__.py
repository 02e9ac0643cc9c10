"""Reading images, bringing them to the network's input, and labelled data sets."""

try:
    import PIL  # noqa: F401
except ImportError:
    raise ImportError("reading images needs Pillow: pip install 'poolsieve[moderate]'") from None

from poolsieve.images.datasets import SPLITS, Duplicates, ImageDataset, load_dataset
from poolsieve.images.reading import UnreadableImage, decode_frames, decode_image, read_image
from poolsieve.images.transforms import ViewSettings, plain_view, random_view

__all__ = [
    "SPLITS",
    "Duplicates",
    "ImageDataset",
    "UnreadableImage",
    "ViewSettings",
    "decode_frames",
    "decode_image",
    "load_dataset",
    "plain_view",
    "random_view",
    "read_image",
]
