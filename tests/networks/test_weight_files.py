import pickle

import numpy as np
import pytest
import torch
from published_networks import TORCHVISION, torchvision_shapes, torchvision_state
from safetensors.torch import save_file

from poolsieve.networks import load_backbone
from poolsieve.networks.resnet import resnet_source_key
from poolsieve.networks.weights import read_weights


@pytest.mark.parametrize("name", list(TORCHVISION))
def test_torchvision_layout_has_no_missing_and_no_unexpected_key(name, structure):
    own = {resnet_source_key(k): v.shape for k, v in structure(name).state_dict().items()}
    published = torchvision_shapes(name)
    assert own == published
    assert len(published) == TORCHVISION[name][4]


def test_sample_of_torchvision_names_and_shapes(structure):
    own = structure("resnext101_32x8d").state_dict()
    shapes = {resnet_source_key(key): tuple(value.shape) for key, value in own.items()}
    assert shapes["conv1.weight"] == (64, 3, 7, 7)
    assert shapes["layer1.0.conv2.weight"] == (256, 8, 3, 3)
    assert shapes["layer2.0.downsample.0.weight"] == (512, 256, 1, 1)
    assert shapes["layer3.22.conv3.weight"] == (1024, 1024, 1, 1)
    assert shapes["layer4.2.bn2.running_var"] == (2048,)
    assert shapes["fc.weight"] == (1000, 2048)


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_a_weight_file_loads_as_it_is(tmp_path, ending):
    state = torchvision_state("resnet18")
    path = tmp_path / f"resnet18-f37072fd.{ending}"
    if ending == "pth":
        torch.save(state, path)
    else:
        save_file(state, path)
    loaded = load_backbone("resnet18", weights=path).state_dict()
    for key, value in loaded.items():
        assert torch.equal(value, state[resnet_source_key(key)])


def test_files_from_before_the_batch_counter_load(tmp_path):
    state = {k: v for k, v in torchvision_state("resnet18").items() if "num_batches" not in k}
    torch.save(state, tmp_path / "old.pth")
    load_backbone("resnet18", weights=tmp_path / "old.pth")


def test_wrong_files_are_named_with_the_reason(tmp_path):
    state = torchvision_state("resnet18")
    state["layer9.weight"] = state.pop("layer1.0.conv1.weight")
    state["fc.bias"] = torch.zeros(10)
    torch.save(state, tmp_path / "other.pth")
    with pytest.raises(ValueError) as error:
        load_backbone("resnet18", weights=tmp_path / "other.pth")
    for part in (
        "other.pth does not fit resnet18",
        "missing: layer1.0.conv1.weight",
        "unexpected: layer9.weight",
        "fc.bias is (10,) and not (1000,)",
    ):
        assert part in str(error.value)
    with pytest.raises(ValueError, match="no such weight file"):
        load_backbone("resnet18", weights=tmp_path / "absent.pth")


class Malicious:
    def __reduce__(self):
        return (print, ("run",))


def test_code_in_a_weight_file_is_not_run(tmp_path, capsys):
    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"conv1.weight": Malicious()}, protocol=2))
    torch.save({"conv1.weight": Malicious()}, tmp_path / "evil2.pth")
    for name in ("evil.pth", "evil2.pth"):
        with pytest.raises(ValueError, match="not a file of plain tensors"):
            load_backbone("resnet18", weights=tmp_path / name)
    assert "run" not in capsys.readouterr().out


def test_a_whole_checkpoint_is_refused(tmp_path):
    torch.save({"epoch": 3, "model": {}}, tmp_path / "checkpoint.pth")
    with pytest.raises(ValueError, match="holds no state dict"):
        load_backbone("resnet18", weights=tmp_path / "checkpoint.pth")


@pytest.mark.parametrize("ending", ["pth", "old.pth", "safetensors"])
def test_damaged_files_are_named(tmp_path, ending):
    """Cut short or overwritten at many places, a file loads as it is or is refused by name."""
    state = {"conv1.weight": torch.arange(64.0), "conv1.bias": torch.ones(8)}
    path = tmp_path / f"weights.{ending}"
    if ending == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=ending == "pth")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[:length] for length in (0, 1, 7, 40, len(whole) // 2, len(whole) - 1)]
    for place in rng.integers(len(whole), size=300):
        changed = bytearray(whole)
        changed[place : place + 4] = rng.bytes(4)
        damaged.append(bytes(changed[: len(whole)]))
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            read_weights(path)
        except ValueError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused >= 6


def test_missing_weights_say_which_option_names_them(tmp_path):
    with pytest.raises(ValueError, match="--weights FILE"):
        load_backbone("resnet18")
    with pytest.raises(ValueError, match="--weights FILE"):
        load_backbone("resnet18", weights=tmp_path / "absent.pth")
