"""The bundles that come with the package."""

import numpy as np
import pytest

from poolsieve import Moderator
from poolsieve.bundles import list_bundles, load_bundle, verify_bundle

SHIPPED = [folder.name for folder in list_bundles()]
LARGEST = 20e6


def test_firearms_come_with_the_package():
    assert "firearms" in SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_bundle_is_whole_small_and_can_be_planned_for(name):
    assert verify_bundle(name) == []
    bundle = load_bundle(name)
    assert sum(file.stat().st_size for file in bundle.path.iterdir()) <= LARGEST
    assert bundle.has_recordings
    card = (bundle.path / "README.md").read_text()
    for section in ("## Sources", "## Results", "## Intended use", "## Misuse", "## Licence"):
        assert section in card, section


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_bundle_gives_verdicts(name):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), dtype=np.uint8)
    verdicts = list(Moderator.load(name, scheme="individual", seed=0).moderate(list(pixels)))
    assert [verdict.status for verdict in verdicts].count("error") == 0
    assert all(0 <= verdict.score <= 1 for verdict in verdicts)
