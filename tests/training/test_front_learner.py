"""Training a front: its learner against the networks that it trains."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone
from drawn_weights import draw_weights, drawn
from safetensors.torch import load_file
from torch.nn import functional

from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork, load_backbone
from poolsieve.networks.trained import TrainedModel, load_model, save_model
from poolsieve.training import Optimization, TrainingSettings
from poolsieve.training.gated_maximum import GatedMax
from poolsieve.training.image_learners import stem_features
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.pool_learners import PoolFrontLearner
from poolsieve.training.run import train

SETTINGS = TrainingSettings(
    pool_sizes=(2,),
    front="tuned",
    tune_from="first",
    front_learns_from="pools",
    views=1,
    front_epochs=1,
    individual_epochs=2,
    epochs=0,
    pools_per_epoch=32,
    batch_pools=8,
    head_weight=0.0,
    validation_pools=10,
    test_pools=10,
    optimization=Optimization(dropout=0.0, label_smoothing=0.0),
)


def test_gradient_of_the_gate_is_that_of_torch():
    features = drawn(5, 3, 4, 2, 2).double()
    gate = drawn(5, 3, 1, 2, 2, low=0).double().requires_grad_()
    weights = drawn(3, 4, 2, 2).double()
    (found,) = torch.autograd.grad((GatedMax.apply(features, gate) * weights).sum(), gate)
    (expected,) = torch.autograd.grad(((features * gate).amax(0) * weights).sum(), gate)
    torch.testing.assert_close(found, expected)
    assert torch.autograd.gradcheck(lambda value: GatedMax.apply(features, value), gate)


def new_model(merge, backbone):
    gate = draw_weights(Gate(backbone.feature_shape[0]))
    network = PooledNetwork(backbone, 2, merge=merge, gate=gate if merge == "gated" else None)
    return TrainedModel(backbone, IndividualNetwork(backbone), {2: network}, gate, merge)


@pytest.mark.parametrize("merge", ["max", "gated"])
def test_the_learner_merges_as_the_pooled_network_does(merge, tmp_path):
    model = new_model(merge, small_backbone())
    rng = np.random.default_rng(0)
    inputs = CachedInputs(rng.random((40, 1, 16, 16, 8)).astype(np.float16), np.array([0, 1] * 20))
    stem = model.backbone.segment("first", "second")
    learner = PoolFrontLearner(stem, model, inputs, inputs, replace(SETTINGS, merge=merge), tmp_path)
    learner.module.train()
    batch = learner.steps(0)[0]
    loaded = replace(learner.load(batch), singles=torch.empty(0, dtype=torch.int64))
    pools, size = batch.positions.shape
    table = np.arange(size * pools).reshape(size, pools).T  # images come place by place
    outputs = model.counting[2](stem(loaded.features), table)
    expected = functional.cross_entropy(outputs.logits, torch.from_numpy(batch.counts))
    step = learner.loss(loaded)
    torch.testing.assert_close(step.loss, expected)
    step.loss.backward()
    assert all(parameter.grad is not None for parameter in stem.parameters())


def test_features_of_a_split_are_kept_in_a_file_that_is_gone_afterwards(tmp_path):
    stem = small_backbone().segment("first", "second")
    rng = np.random.default_rng(0)
    inputs = CachedInputs(rng.random((21, 1, 16, 16, 8)).astype(np.float16), np.array([0, 1, 1] * 7))
    found = stem_features(stem, inputs, tmp_path / "scratch")
    with torch.no_grad():
        expected = stem.eval()(inputs.plain(np.arange(21)))
    torch.testing.assert_close(found.plain(np.arange(21)), expected, atol=2e-3, rtol=2e-3)
    assert isinstance(found.array, np.memmap)
    assert not list((tmp_path / "scratch").iterdir())


def test_features_beyond_half_precision_are_an_error(tmp_path):
    inputs = CachedInputs(np.full((4, 1, 2, 2, 3), 6e4, np.float16), np.array([0, 1, 0, 1]))
    double = torch.nn.Conv2d(3, 3, 1)
    torch.nn.init.constant_(double.weight, 1.0)
    with pytest.raises(ValueError, match="exceed the range of half precision"):
        stem_features(double, inputs, tmp_path)


def test_a_gate_does_not_move_under_networks_that_learn_no_more(task, tmp_path, quiet):
    """The counting network learns with the front only; the individual network goes on alone."""
    out = tmp_path / "out"
    train(task, out, SETTINGS, cache_dir=tmp_path / "cache", reporter=quiet, backbone=small_backbone())
    model = load_model(out, small_backbone())
    front = load_file(out / "phases" / "front" / "best-0001.safetensors")
    individual = model.individual.state_dict()
    for name, value in model.gate.state_dict().items():
        assert torch.equal(value, front[f"gate.{name}"]), name
    assert any(not torch.equal(value, front[f"individual.{name}"]) for name, value in individual.items())


def test_a_model_is_loaded_at_its_own_input_size(tmp_path):
    backbone = load_backbone("efficientnet-lite0", input_size=64, pretrained=False)
    save_model(tmp_path, new_model("gated", backbone), {})
    assert load_model(tmp_path).backbone.feature_shape == backbone.feature_shape
    with pytest.raises(ValueError, match="trained on images of 64 pixels, but the backbone given takes 32"):
        load_model(tmp_path, load_backbone("efficientnet-lite0", input_size=32, pretrained=False))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"model\.safetensors: damaged"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"format": 1}')
    with pytest.raises(ValueError, match=r"config\.json: damaged, it has no backbone"):
        load_model(tmp_path)
