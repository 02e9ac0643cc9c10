import pickle

import pytest
import torch
from published_networks import TORCHVISION, torchvision_shapes, torchvision_state
from safetensors.torch import save_file

from poolsieve.networks import load_backbone
from poolsieve.networks.resnet import resnet_source_key


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
