"""Records of a small real bundle against the engine itself."""

import numpy as np
import pytest
from PIL import Image

from poolsieve.engines import open_engine
from poolsieve.evaluation.feature_cache import LabelledImages, cache_folder, hold_cache, record_images
from poolsieve.evaluation.mixtures import draw_mixture
from poolsieve.evaluation.pool_cache import PoolCache
from poolsieve.evaluation.recorded_networks import RecordedNetworks
from poolsieve.evaluation.scheme_runs import run_scheme
from poolsieve.moderation import Moderator
from poolsieve.progress import Reporter
from poolsieve.schemes import LikelihoodModel, list_schemes, make_scheme

QUIET = Reporter(quiet=True)


@pytest.fixture(scope="module")
def bundle(small):
    return small


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    files = []
    for k in range(30):
        files.append(folder / f"{k}.png")
        Image.fromarray(rng.integers(0, 255, (40, 40 + k, 3), dtype=np.uint8)).save(files[-1])
    labels = np.arange(30) % 3 == 0
    return LabelledImages("test", files, [f"{k:064x}" for k in range(30)], labels.astype(np.int64))


@pytest.mark.parametrize("scheme", list_schemes())
def test_a_scheme_on_records_decides_as_in_moderation(bundle, images, tmp_path, scheme):
    engine = open_engine(bundle, "openvino", threads=1)
    folder = cache_folder(tmp_path, engine, images)
    with hold_cache(folder):
        records = record_images(folder, engine, images, QUIET)
    mixture = draw_mixture(images.labels, 0.2, 230, np.random.default_rng(1))
    # The decoder must not search for the sense in what a random network reads.
    made = make_scheme(
        scheme,
        (8,),
        prevalence=0.2 if scheme != "individual" else None,
        decoder="classo" if scheme == "oneshot" else None,
    )
    moderator = Moderator(bundle, engine, made, seed=5, reading_threads=1)
    verdicts = list(moderator.moderate([str(images.files[k]) for k in mixture.images]))
    with PoolCache(tmp_path / "pools.db") as cache:
        networks = RecordedNetworks(records, engine, cache)
        likelihoods = LikelihoodModel(bundle.calibration)
        for _ in range(2):  # the second time from cache
            run = run_scheme(made, mixture, networks, likelihoods, bundle.config.cost, gated=True, seed=5)
            assert [verdict.flagged for verdict in verdicts] == run.flags.tolist()
            np.testing.assert_allclose([verdict.score for verdict in verdicts], run.scores, atol=1e-5)
            spent = {**run.meter.counts(), "seconds": None}
            assert spent == {**moderator.totals.meter.counts(), "seconds": None}


def test_a_cache_of_something_else_or_in_use_is_refused(bundle, images, tmp_path):
    engine = open_engine(bundle, "openvino", threads=1)
    folder = tmp_path / "cache"
    with hold_cache(folder):
        record_images(folder, engine, images, QUIET)
        with pytest.raises(ValueError, match="another evaluation is at work"), hold_cache(folder):
            pass
        fewer = LabelledImages("test", images.files[:5], images.digests[:5], images.labels[:5])
        with pytest.raises(ValueError, match="other images or networks"):
            record_images(folder, engine, fewer, QUIET)
        records = record_images(folder, engine, images, QUIET)
    assert isinstance(records.features.base, np.memmap)
    assert records.features.flags.c_contiguous  # as merging takes them
