"""What forms networks of pools have: names alone, so that settings, networks and bundles share them."""

from __future__ import annotations

from typing import Literal

Merge = Literal["gated", "max", "tree"]
"""How the images of a pool are merged: maximum of features times gate, plain maximum, or over pairs."""
Counting = Literal["shared", "separate"]
"""Whether pool sizes share the weights of the largest."""
