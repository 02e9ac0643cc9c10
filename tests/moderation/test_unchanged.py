"""Verdicts of every way to decide are those that they were before schemes became lists of stages."""

import hashlib

import numpy as np
import pytest
from planted import Doubting, moderator_by, planted_pixels

DIGESTS = {
    "adaptive": "0f113e4c0b23c15d",
    "cascade": "d7b9024af9aef6fd",
    "dorfman": "9472a9de27fada67",
    "glance": "24a966b803bd00c8",
    "individual": "7259564fbc8e3977",
    "oneshot": "7eef9d904216ff84",
    "adaptive with limits": "5d066c333166696e",
    "adaptive with two sizes": "6b73e84a5ee545c8",
    "auto": "da2fb1377b9570b5",
}


def rounded(value):
    return None if value is None else round(value, 4)  # the last digits may depend on the processor


def sure_glance(self, images):
    return (self.head_confidence * (2.0 * self.looks_bad(images) - 1)).astype(np.float32)


@pytest.mark.parametrize("way", DIGESTS)
def test_verdicts_are_what_they_were(way, monkeypatch):
    monkeypatch.setattr(Doubting, "glance", sure_glance)
    shares = np.repeat([0.01, 0.05, 0.2], 140)
    truth = np.random.default_rng(11).random(len(shares)) < shares
    digest = hashlib.sha256()
    for one in moderator_by(way).moderate(list(planted_pixels(truth))):
        pools = [
            (pool.number, pool.members, pool.count, *map(rounded, pool.probabilities)) for pool in one.pools
        ]
        numbers = rounded(one.score), rounded(one.prior), rounded(one.pool_score)
        kept = (one.position, one.chunk, one.status, one.decided_by, *numbers, pools, one.note)
        digest.update(f"{kept}\n".encode())
    assert digest.hexdigest()[:16] == DIGESTS[way]
