"""Pooled image moderation: test many images at once, find the few bad ones."""

from poolsieve._version import __version__

__all__ = ["__version__"]
