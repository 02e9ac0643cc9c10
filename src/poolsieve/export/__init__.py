"""From a training run to a bundle: graphs, card, recordings of validation images, and plans."""

from poolsieve.export.bundle_writing import export_run, save_bundle
from poolsieve.export.recording import record_bundle, record_readings, replan_bundle

__all__ = ["export_run", "record_bundle", "record_readings", "replan_bundle", "save_bundle"]
