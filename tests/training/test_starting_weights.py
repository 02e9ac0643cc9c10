"""Runs that start from what the front and the individual network of a bundle or of another run had learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import SHORT_SETTINGS
from drawn_weights import drawn_backbone
from made_bundles import SIZE, write_run
from torch.nn import BatchNorm2d
from torch.nn.functional import avg_pool2d

from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
from poolsieve.export import export_run
from poolsieve.export.graphs import with_stored_precision
from poolsieve.networks import load_backbone
from poolsieve.networks.trained import load_model
from poolsieve.networks.weights import hash_weights
from poolsieve.training import TrainingSettings
from poolsieve.training.run import train
from poolsieve.training.starting_weights import starting_backbone

BACKBONES = ("resnet18", "efficientnet-lite0")


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """Runs on backbones with drawn weights; beside each a bundle, and one that holds graphs alone."""
    runs = {}
    for name in BACKBONES:
        root = tmp_path_factory.mktemp(name)
        backbone = drawn_backbone(name, SIZE)
        for number, norm in enumerate(part for part in backbone.modules() if isinstance(part, BatchNorm2d)):
            torch.nn.init.constant_(norm.weight, 1 + number / 100)
            torch.nn.init.constant_(norm.bias, number / 100)
        runs[name] = write_run(root / "run", backbone)
        (runs[name] / "settings.json").write_text("{}")
        export_run(runs[name], root / "bundle", precision="fp16")
        export_run(runs[name], root / "graphs", precision="fp16", weights=False)
    return runs


def starting(source, name, **settings):
    return starting_backbone(
        TrainingSettings(backbone=name, input_size=SIZE, weights=str(source), **settings)
    ).eval()


def vectors(front, back, shrink=1):
    pixels = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, SIZE, SIZE)).astype(np.float32))
    with torch.inference_mode():
        return back(front(pixels if shrink == 1 else avg_pool2d(pixels, shrink))).numpy()


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize(("number", "shrink"), [(None, 1), (1, 1), (None, 2)])
def test_front_and_individual_network_are_those_of_the_source(learnt, name, number, shrink):
    """Also where the new run cuts elsewhere, or looks at smaller images."""
    cut = None if number is None else load_backbone(name, pretrained=False).cut_points[number]
    model = load_model(learnt[name])
    assert cut != model.backbone.cut
    sources = {"run": model, "bundle": with_stored_precision(model, "fp16")}
    sources["graphs"] = sources["bundle"]
    for kind, source in sources.items():
        backbone = starting(learnt[name].parent / kind, name, cut=cut, shrink=shrink)
        wanted = vectors(source.backbone.front, source.individual.back, shrink)
        np.testing.assert_allclose(vectors(backbone.front, backbone.back), wanted, rtol=1e-4, atol=1e-5)


def test_a_bundle_of_the_package_is_named():
    bundle = load_bundle("firearms")
    backbone = starting_backbone(TrainingSettings(backbone=bundle.config.backbone, weights="firearms")).eval()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    engine = open_engine(bundle, threads=1)
    wanted = engine.individual(engine.front(pixels).features).vectors
    with torch.inference_mode():
        images = backbone.preprocessing(torch.from_numpy(pixels).permute(0, 3, 1, 2).float())
        found = backbone.back(backbone.front(images)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_equal_weights_which_graphs_hold_once_are_missed(tmp_path):
    run = write_run(tmp_path / "run", drawn_backbone("resnet18", SIZE))
    export_run(run, tmp_path / "bundle")
    export_run(run, tmp_path / "graphs", weights=False)
    starting(tmp_path / "bundle", "resnet18")
    with pytest.raises(ValueError, match=r"lacks weights, such as .*bn.*with model\.safetensors"):
        starting(tmp_path / "graphs", "resnet18")


def test_the_start_is_the_same_each_time_and_draws_nothing_from_others(learnt):
    before, hashes = torch.get_rng_state(), set()
    try:
        for _ in range(2):
            torch.seed()  # those who draw are never in the same state
            begun = torch.get_rng_state()
            hashes.add(hash_weights(starting(learnt["resnet18"], "resnet18")))
            assert torch.equal(torch.get_rng_state(), begun)
    finally:
        torch.set_rng_state(before)
    assert len(hashes) == 1


def test_a_run_that_starts_so_goes_on_and_notices_another_source(learnt, task, quiet, tmp_path):
    source = tmp_path / "source"
    source.symlink_to(learnt["efficientnet-lite0"])
    settings = replace(
        SHORT_SETTINGS,
        backbone="efficientnet-lite0",
        input_size=SIZE,
        weights=str(source),
        individual_epochs=1,
        pools_per_epoch=32,
        validation_pools=20,
        test_pools=20,
    )
    torch.set_num_threads(1)
    results = train(task, tmp_path / "run", settings, cache_dir=tmp_path / "cache", reporter=quiet)
    front = load_model(tmp_path / "run").backbone.front
    assert hash_weights(front) == hash_weights(load_model(source).backbone.front)  # which stays frozen
    assert train(task, tmp_path / "run", settings, cache_dir=tmp_path / "cache", reporter=quiet) == results
    source.unlink()
    source.symlink_to(learnt["efficientnet-lite0"].parent / "bundle")
    with pytest.raises(ValueError, match="pretrained weights of the network: changed"):
        train(task, tmp_path / "run", settings, cache_dir=tmp_path / "cache", reporter=quiet)


def test_what_nothing_can_start_from_is_refused(learnt, tmp_path):
    with pytest.raises(ValueError, match="has weights of resnet18, but the backbone is efficientnet-lite0"):
        starting(learnt["resnet18"], "efficientnet-lite0")
    with pytest.raises(ValueError, match="is made of other bundles"):
        starting("cars", "efficientnet-lite0")
    with pytest.raises(ValueError, match="no such weight file"):
        starting(tmp_path / "none", "efficientnet-lite0")
    with pytest.raises(ValueError, match="is no bundle"):
        starting(tmp_path, "efficientnet-lite0")
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(ValueError, match="is not finished"):
        starting(tmp_path, "efficientnet-lite0")
