"""A small network in one engine and precision: `python -m poolsieve.engines.small_network ENGINE PRECISION`.

With the folder of a bundle as third argument it is that bundle's networks that are run, on images of noise.

Run by `poolsieve.engines.probing` in a process of its own, which may die of it. The layers are those of the
networks of bundles, wide enough that engines take the kernels that they would take there.
"""

from __future__ import annotations

import contextlib
import sys

import numpy as np

from poolsieve.engines.probing import REFUSED

_CHANNELS, _SIDE, _ROWS, _OUTPUTS = 64, 16, 4, 96


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _run_openvino(precision: str) -> np.ndarray:
    from poolsieve.engines.openvino_engine import ov, precision_hint

    core, layers = ov.Core(), ov.opset13
    images = layers.parameter([_ROWS, _CHANNELS, _SIDE, _SIDE], np.float32)
    same: tuple[list[int], ...] = ([1, 1], [1, 1], [1, 1], [1, 1])  # strides, padding twice, dilations
    values = layers.relu(
        layers.convolution(images, layers.constant(_draw(_CHANNELS, _CHANNELS, 3, 3)), *same)
    )
    values = layers.relu(
        layers.group_convolution(values, layers.constant(_draw(_CHANNELS, 1, 1, 3, 3)), *same)
    )
    values = layers.convolution(
        values, layers.constant(_draw(_CHANNELS, _CHANNELS, 1, 1)), [1, 1], [0, 0], [0, 0], [1, 1]
    )
    vectors = layers.reduce_mean(values, np.array([2, 3]), False)
    logits = layers.matmul(vectors, layers.constant(_draw(_CHANNELS, _OUTPUTS)), False, False)
    settings = {"INFERENCE_PRECISION_HINT": precision_hint(core, precision)}
    compiled = core.compile_model(ov.Model([logits], [images]), "CPU", settings)
    return np.asarray(compiled(_draw(_ROWS, _CHANNELS, _SIDE, _SIDE))[0])


def _run_torch(precision: str) -> np.ndarray:
    import torch
    from torch.nn import functional as layers

    def drawn(*shape: int) -> torch.Tensor:
        return torch.from_numpy(_draw(*shape))

    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "low"):
        images = drawn(_ROWS, _CHANNELS, _SIDE, _SIDE).contiguous(memory_format=torch.channels_last)
        values = layers.conv2d(images, drawn(_CHANNELS, _CHANNELS, 3, 3), padding=1).relu()
        values = layers.conv2d(values, drawn(_CHANNELS, 1, 3, 3), padding=1, groups=_CHANNELS).relu()
        values = layers.conv2d(values, drawn(_CHANNELS, _CHANNELS, 1, 1))
        logits = layers.linear(values.mean((2, 3)), drawn(_OUTPUTS, _CHANNELS))
    return logits.float().numpy()


def _run_bundle(engine: str, folder: str) -> np.ndarray:
    from poolsieve.bundles import load_bundle
    from poolsieve.engines.engine_checks import IMAGES, all_outputs, noise_images
    from poolsieve.engines.registry import engine_class

    opened = engine_class(engine)(load_bundle(folder))
    outputs = all_outputs(opened, noise_images(opened.bundle.config, IMAGES))
    return np.concatenate([values.ravel() for values in outputs.values()])


def main(engine: str, precision: str, bundle: str | None = None) -> int:
    """Run the network; gives the exit status."""
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a death that is expected leaves no file behind
    try:
        if bundle is not None:
            outputs = _run_bundle(engine, bundle)
        else:
            outputs = {"openvino": _run_openvino, "torch": _run_torch}[engine](precision)
    except ValueError as error:
        print(error)
        return REFUSED
    if not np.isfinite(outputs).all():
        print("it gives numbers that are not finite")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
