"""Campaigns of faults: what strangers send and what machines suffer, by number and seed."""
