import pytest
import torch
from drawn_weights import draw_weights, drawn

from poolsieve.networks import Gate, PooledNetwork


def test_one_number_between_0_and_1_per_location_and_one_logit_per_image():
    opening, logit = Gate(24).eval()(10 * drawn(5, 24, 9, 7))
    assert opening.shape == (5, 1, 9, 7)
    assert logit.shape == (5,)
    assert ((opening > 0) & (opening < 1)).all()


def test_a_new_gate_is_nearly_open():
    opening, _ = Gate(240).eval()(drawn(4, 240, 14, 14, low=0))
    assert opening.mean() > 0.7


@torch.no_grad()
def test_images_are_judged_one_by_one():
    gate = draw_weights(Gate(24)).eval()
    features = drawn(4, 24, 8, 8, low=0)
    opening, logit = gate(features)
    alone = [gate(image[None]) for image in features]
    torch.testing.assert_close(torch.cat([part[0] for part in alone]), opening)
    torch.testing.assert_close(torch.cat([part[1] for part in alone]), logit)


@torch.no_grad()
def test_a_closed_gate_takes_an_image_out_of_its_pools(lite0):
    network = PooledNetwork(lite0, 8, merge="gated").eval()
    draw_weights(network.gate)
    network.gate.location.weight.zero_()
    network.gate.trust.fill_(100.0)  # the image's logit decides alone
    features = drawn(2, *lite0.feature_shape, low=0)
    _, logits = network.gate(features)
    network.gate.judge.bias -= logits.mean()  # one image above 0, one below
    features = features[logits.argsort()]
    network.gate.trust.fill_(1e4)
    pooled = network(features, [[0, 1]]).features
    torch.testing.assert_close(pooled, lite0.back(features[1:]), rtol=1e-3, atol=1e-3)


def test_learns_which_images_are_bad():
    gate = draw_weights(Gate(8, width=16))
    optimizer = torch.optim.Adam(gate.parameters(), lr=0.01)
    features = drawn(64, 8, 8, 8, low=0)
    bad = torch.arange(64) % 2 == 0
    features[bad, 3, 2:4, 5:7] += 2.0  # a small bright spot
    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(gate(features)[1], bad.float())
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        logits = gate.eval()(features)[1]
    assert ((logits > 0) == bad).float().mean() > 0.9


@pytest.mark.parametrize(("channels", "width"), [(0, 64), (24, 0)])
def test_sizes_are_positive(channels, width):
    with pytest.raises(ValueError, match="positive"):
        Gate(channels, width)
