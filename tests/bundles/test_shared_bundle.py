"""Bundles whose one counting network serves several pool sizes."""

import numpy as np
import pytest
import typer
from altered_bundles import change_config, copy_bundle, put, sign
from PIL import Image
from typer.testing import CliRunner

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.cli.bundles import app
from poolsieve.designs import NO_IMAGE
from poolsieve.engines import open_engine
from poolsieve.evaluation.pool_cache import PoolCache
from poolsieve.evaluation.recorded_networks import ImageRecords, RecordedNetworks
from poolsieve.export.recording import record_bundle
from poolsieve.moderation import Moderator
from poolsieve.planning import plan
from poolsieve.progress import Reporter
from poolsieve.schemes import make_scheme


@pytest.fixture(scope="module")
def shared(made):
    return made("tiny-shared").bundle


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("labelled")
    rng = np.random.default_rng(0)
    for split, numbers in (("train", (2, 2)), ("val", (30, 9)), ("test", (2, 2))):
        for label, number in enumerate(numbers):
            folder = root / split / str(label)
            folder.mkdir(parents=True)
            for k in range(number):
                Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    return root


def test_one_graph_serves_both_sizes(shared, tiny_bundle):
    assert (shared.config.pool_sizes, shared.config.counting) == ((2, 4), "shared")
    assert sorted(file for file in shared.config.files if "pooled" in file) == ["pooled-4.onnx"]
    assert shared.config.counting_graph(2) == shared.config.counting_graph(4) == "pooled-4.onnx"
    assert set(tiny_bundle.config.files) - set(shared.config.files) == {"pooled-2.onnx"}
    assert verify_bundle(shared.path) == []


def test_smaller_pools_get_the_first_outputs(shared):
    engine = open_engine(shared, threads=1)
    images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    features = engine.front(images).features
    gate = engine.head(features).gate
    pools = np.array([[0, 1], [2, 3], [4, NO_IMAGE]])
    small, large = (engine.pooled(features, gate, pools, size) for size in (2, 4))
    assert (small.logits.shape, large.logits.shape) == ((3, 3), (3, 5))
    assert np.array_equal(small.logits, large.logits[:, :3])
    assert np.array_equal(small.vectors, large.vectors)
    assert small.logits.flags.c_contiguous
    with pytest.raises(ValueError, match="reads pools of 2, 4, not of 3"):
        engine.pooled(features, gate, pools, 3)


def test_graphs_that_do_not_fit_the_sharing_are_found(shared, folder, tmp_path):
    with pytest.raises(ValueError, match=r"extra \['pooled-2.onnx'\]"):
        change_config(folder, counting="shared")
        load_bundle(folder)
    copy = copy_bundle(shared.path, tmp_path / "left over")
    put(copy / "pooled-2.onnx", shared.read("pooled-4.onnx"))
    assert [line for line in verify_bundle(copy) if "pooled-2.onnx does not belong" in line]
    change_config(copy, counting="separate")
    sign(copy, "pooled-2.onnx")
    assert any("(N, 5)" in line and "(N, 3)" in line for line in verify_bundle(copy))
    change_config(copy, counting="both")
    with pytest.raises(ValueError, match="counting is 'both', but must be 'shared' or 'separate'"):
        load_bundle(copy)


def test_people_are_told(shared, tiny_bundle):
    application = typer.Typer()
    application.add_typer(app, name="bundles")
    for bundle, told in ((shared, True), (tiny_bundle, False)):
        card = (bundle.path / "README.md").read_text()
        assert ("One counting network serves all pool sizes" in card) == told
        shown = CliRunner().invoke(application, ["bundles", "show", str(bundle.path)]).output
        assert "2, 4" in shown
        assert ("counted by one network" in shown) == told


def test_it_is_recorded_planned_for_and_moderates_in_pools_of_either_size(shared, data, tmp_path):
    copy = copy_bundle(shared.path, tmp_path / "copy")
    bundle = record_bundle(copy, data, threads=1, reporter=Reporter(quiet=True))
    assert (bundle.config.counting, verify_bundle(copy)) == ("shared", [])
    assert {pools.pool_size for pools in bundle.recordings().pools} == {2, 4}
    assert plan(bundle, prevalence=0.05, sensitivity=0.5, specificity=0.5) is not None
    for size in (2, 4):
        scheme = make_scheme("dorfman", bundle.config.pool_sizes, pool_size=size, prevalence=0.2)
        moderator = Moderator(bundle, open_engine(bundle, threads=1), scheme, seed=1)
        verdicts = list(moderator.moderate(data / "val"))
        assert [verdict.status for verdict in verdicts].count("error") == 0
        assert len(verdicts) == 39
        assert max(len(pool.members) for verdict in verdicts for pool in verdict.pools) == size


def test_readings_of_both_sizes_are_remembered_apart(shared, tmp_path):
    engine = open_engine(shared, threads=1)
    images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    features = engine.front(images).features
    head, individual = engine.head(features), engine.individual(features)
    records = ImageRecords(
        features, head.gate, head.logits, individual.logits, individual.vectors, np.zeros(6)
    )
    numbers, pools = np.arange(6), np.array([[0, 1], [4, 5]])
    for known in (False, True):  # the second time from the file
        with PoolCache(tmp_path / "pools.db") as cache:
            networks = RecordedNetworks(records, engine, cache)
            for size in (2, 4):
                found = networks.pooled(numbers, numbers, pools, size)
                expected = engine.pooled(features, head.gate, pools, size)
                np.testing.assert_allclose(found.logits, expected.logits, atol=1e-6)
                assert found.counts is None  # nothing but the arg max is read
            assert (cache.recalled, cache.computed) == ((4, 0) if known else (0, 4))
