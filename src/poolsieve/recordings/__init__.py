"""Recorded readings of real validation images, from which plans are made; needs no torch."""

from poolsieve.recordings.layout import PoolLayout, layout_for
from poolsieve.recordings.readings import PoolRecording, Recordings
from poolsieve.recordings.taking import record_readings

__all__ = ["PoolLayout", "PoolRecording", "Recordings", "layout_for", "record_readings"]
