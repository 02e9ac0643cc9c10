import numpy as np
import pytest
from altered_bundles import copy_bundle
from small_bundle import write_data
from typer.testing import CliRunner

from poolsieve.cli.main import app
from poolsieve.distributed.ray_networks import RayNetworks
from poolsieve.distributed.ray_workers import RayResources
from poolsieve.engines import open_engine


def test_recordings_and_plans_made_on_ray_are_those_of_one_process(cluster, small, tmp_path):
    data = write_data(tmp_path / "data")
    found = []
    for name, more in (("here", ()), ("ray", ("--on", "ray", "--workers", "2", "--cpus-per-worker", "0.5"))):
        folder = copy_bundle(small.path, tmp_path / name)
        given = ["bundles", "record", str(folder), str(data), "--threads", "1", *more]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, result.output
        found.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert found[0] == found[1]
    assert "recordings.safetensors" in found[0]
    assert cluster.is_initialized()  # it was not started by the command


@pytest.mark.parametrize("images", [0, 1, 8, 9, 37])
def test_any_number_of_rows_is_cut_and_joined(networks, small, images):
    engine = open_engine(small, threads=1)
    pixels = np.random.default_rng(images).integers(0, 256, (images, 32, 32, 3), dtype=np.uint8)
    features = networks.front(pixels).features
    np.testing.assert_array_equal(features, engine.front(pixels).features)
    np.testing.assert_array_equal(networks.individual(features).logits, engine.individual(features).logits)


@pytest.fixture(scope="module")
def networks(cluster, small):
    opened = RayNetworks(str(small.path), "auto", 2, 1, RayResources(cpus=0.5))
    yield opened
    opened.close()


def test_an_actor_that_dies_is_replaced(networks):
    pixels = np.zeros((9, 32, 32, 3), dtype=np.uint8)
    before = networks.front(pixels).features
    networks._ray.kill(networks._actors[0], no_restart=False)
    np.testing.assert_array_equal(networks.front(pixels).features, before)
