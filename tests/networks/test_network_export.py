import pytest
import torch
from drawn_weights import draw_weights, drawn

from poolsieve.networks import Gate, IndividualNetwork, load_backbone


@pytest.mark.parametrize("name", ["efficientnet-lite0", "resnet18"])
@torch.no_grad()
def test_front_gate_and_back_are_graphs_for_any_number_of_images(name):
    """Exporting fails if a step depends on data, and would fix the batch if a step depended on its size."""
    backbone = draw_weights(load_backbone(name, pretrained=False, input_size=50))
    images = drawn(3, 3, 50, 50)
    features = backbone.front(images)
    parts = (
        (backbone.front, images),
        (draw_weights(Gate(backbone.feature_shape[0])).eval(), features),
        (IndividualNetwork(backbone).eval(), features),
    )
    for module, example in parts:
        batch = torch.export.Dim("batch", min=1, max=4096)
        graph = torch.export.export(module.eval(), (example[:2],), dynamic_shapes=({0: batch},)).module()
        for count in (1, 3):
            torch.testing.assert_close(graph(example[:count]), module(example[:count]), rtol=1e-3, atol=1e-3)
