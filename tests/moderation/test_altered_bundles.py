"""Whoever changes a bundle and signs it anew gets an error in words or whole verdicts, never a traceback.

Every alteration is drawn from a seed, and enters its own hash into `config.json` as its maker would.
"""

import numpy as np
import pytest
from altered_bundles import ALTERATIONS, copy_bundle

from poolsieve.moderation import Moderator

ROUNDS = 6
"""Seeds for each kind of alteration."""


@pytest.fixture(scope="module")
def whole(made):
    return made("tiny-gated").bundle.path


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("kind", ALTERATIONS)
def test_an_altered_bundle_is_an_error_in_words_or_judges(whole, tmp_path, kind, engine):
    images = list(np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8))
    refused = 0
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        folder = copy_bundle(whole, tmp_path / str(seed))
        ALTERATIONS[kind](folder, rng)
        scheme = ("adaptive", "glance", "cascade")[seed % 3]
        try:
            judge = Moderator.load(folder, engine=engine, scheme=scheme, threads=1, seed=1)
            verdicts = list(judge.moderate(images))
        except (ValueError, OSError) as error:
            assert str(error)
            refused += 1
            continue
        assert len(verdicts) == len(images)
        for verdict in verdicts:
            assert verdict.status in ("clear", "flagged") and 0 <= verdict.score <= 1
    assert refused or kind == "calibration"  # what is altered matters to what is judged, if not each time
