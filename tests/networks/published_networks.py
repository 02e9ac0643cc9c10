"""The published networks once more, as plain functions over published state dicts.

Written apart from the package, so that a split backbone is compared with something that was never split.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

TORCHVISION = {  # blocks, bottleneck, groups, width per group; entries, parameters, GMACs at 224 px
    "resnet18": ((2, 2, 2, 2), False, 1, 64, 122, 11_689_512, 1.81),
    "resnet34": ((3, 4, 6, 3), False, 1, 64, 218, 21_797_672, 3.66),
    "resnet50": ((3, 4, 6, 3), True, 1, 64, 320, 25_557_032, 4.09),
    "resnet101": ((3, 4, 23, 3), True, 1, 64, 626, 44_549_160, 7.80),
    "resnet152": ((3, 8, 36, 3), True, 1, 64, 932, 60_192_808, 11.51),
    "resnext50_32x4d": ((3, 4, 6, 3), True, 32, 4, 320, 25_028_904, 4.23),
    "resnext101_32x8d": ((3, 4, 23, 3), True, 32, 8, 626, 88_791_336, 16.41),
    "wide_resnet50_2": ((3, 4, 6, 3), True, 1, 128, 320, 68_883_240, 11.40),
}
LITE = {  # entries, parameters
    "efficientnet-lite0": (296, 4_652_008),
    "efficientnet-lite1": (386, 5_416_680),
    "efficientnet-lite2": (386, 6_092_072),
}


def torchvision_shapes(name):
    """Names and shapes of the entries of a torchvision weight file."""
    depths, bottleneck, groups, group_width, *_ = TORCHVISION[name]
    shapes = {}

    def conv_norm(conv, norm, outputs, inputs, kernel):
        shapes[f"{conv}.weight"] = (outputs, inputs, kernel, kernel)
        for part in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{norm}.{part}"] = (outputs,)
        shapes[f"{norm}.num_batches_tracked"] = ()

    conv_norm("conv1", "bn1", 64, 3, 7)
    channels = 64
    for layer, (depth, base) in enumerate(zip(depths, (64, 128, 256, 512), strict=True), start=1):
        for block in range(depth):
            p = f"layer{layer}.{block}"
            if bottleneck:
                width, outputs = int(base * group_width / 64) * groups, 4 * base
                conv_norm(f"{p}.conv1", f"{p}.bn1", width, channels, 1)
                conv_norm(f"{p}.conv2", f"{p}.bn2", width, width // groups, 3)
                conv_norm(f"{p}.conv3", f"{p}.bn3", outputs, width, 1)
            else:
                outputs = base
                conv_norm(f"{p}.conv1", f"{p}.bn1", base, channels, 3)
                conv_norm(f"{p}.conv2", f"{p}.bn2", base, base, 3)
            if block == 0 and (layer > 1 or bottleneck):
                conv_norm(f"{p}.downsample.0", f"{p}.downsample.1", outputs, channels, 1)
            channels = outputs
    return shapes | {"fc.weight": (1000, channels), "fc.bias": (1000,)}


def torchvision_state(name, seed=0):
    """Numbers for those entries that keep activations in bounds."""
    rng = np.random.default_rng(seed)
    last = "bn3.weight" if TORCHVISION[name][1] else "bn2.weight"  # the end of a block's branch
    state = {}
    for key, shape in torchvision_shapes(name).items():
        if key.endswith("num_batches_tracked"):
            state[key] = torch.tensor(7)
        elif len(shape) > 1:
            state[key] = _tensor(rng.normal(scale=math.sqrt(2 / math.prod(shape[1:])), size=shape))
        else:
            low, spread = {
                "weight": (0.1 if key.endswith(last) else 0.5, 0.2),
                "running_var": (0.5, 1.0),
            }.get(key.split(".")[-1], (-0.1, 0.2))
            state[key] = _tensor(rng.uniform(low, low + spread, size=shape))
    return state


def _tensor(values):
    return torch.from_numpy(values.astype(np.float32))


def torchvision_forward(name, state, images):
    """Logits of a ResNet that was never split."""
    depths, bottleneck, groups, *_ = TORCHVISION[name]
    values = F.relu(_norm(state, "bn1", F.conv2d(images, state["conv1.weight"], stride=2, padding=3), 1e-5))
    values = F.max_pool2d(values, 3, 2, 1)
    for layer, depth in enumerate(depths, start=1):
        for block in range(depth):
            p = f"layer{layer}.{block}"
            stride = 2 if block == 0 and layer > 1 else 1
            skip = values
            if f"{p}.downsample.0.weight" in state:
                skip = F.conv2d(values, state[f"{p}.downsample.0.weight"], stride=stride)
                skip = _norm(state, f"{p}.downsample.1", skip, 1e-5)
            if bottleneck:
                layers = [(1, 1, 0, 1), (2, stride, 1, groups), (3, 1, 0, 1)]
            else:
                layers = [(1, stride, 1, 1), (2, 1, 1, 1)]
            for number, step, padding, parts in layers:
                values = F.conv2d(
                    values, state[f"{p}.conv{number}.weight"], stride=step, padding=padding, groups=parts
                )
                values = _norm(state, f"{p}.bn{number}", values, 1e-5)
                values = F.relu(values + skip if number == len(layers) else values)
    return F.linear(values.mean((2, 3)), state["fc.weight"], state["fc.bias"])


def lite_forward(state, images):
    """Logits of an EfficientNet-Lite that was never split; everything it needs is read off the shapes.

    Strides: the blocks that halve are the first with 24, 40, 80 and 192 channels (or their scaled widths),
    i.e. wherever the channels change, except for 16, 112 and 320.
    """
    values = F.relu6(_norm(state, "_bn0", _same_conv(images, state["_conv_stem.weight"], 2), 1e-3))
    changes = 0
    for number in range(sum(key.endswith("_project_conv.weight") for key in state)):
        p = f"_blocks.{number}"
        inner = values
        outputs = state[f"{p}._project_conv.weight"].shape[0]
        changed = outputs != values.shape[1]
        changes += changed
        stride = 2 if changed and changes in (2, 3, 4, 6) else 1
        if f"{p}._expand_conv.weight" in state:
            inner = F.relu6(
                _norm(state, f"{p}._bn0", F.conv2d(inner, state[f"{p}._expand_conv.weight"]), 1e-3)
            )
        depthwise = state[f"{p}._depthwise_conv.weight"]
        inner = F.relu6(_norm(state, f"{p}._bn1", _same_conv(inner, depthwise, stride, len(depthwise)), 1e-3))
        inner = _norm(state, f"{p}._bn2", F.conv2d(inner, state[f"{p}._project_conv.weight"]), 1e-3)
        values = inner if changed else values + inner
    values = F.relu6(_norm(state, "_bn1", F.conv2d(values, state["_conv_head.weight"]), 1e-3))
    return F.linear(values.mean((2, 3)), state["_fc.weight"], state["_fc.bias"])


def _norm(state, key, values, eps):
    parts = (state[f"{key}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
    return F.batch_norm(values, *parts, training=False, eps=eps)


def _same_conv(values, weight, stride, groups=1):
    """Convolution with TensorFlow's padding for the size at hand."""
    size, kernel = values.shape[-1], weight.shape[-1]
    missing = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    before, after = missing // 2, missing - missing // 2
    return F.conv2d(F.pad(values, (before, after, before, after)), weight, stride=stride, groups=groups)
