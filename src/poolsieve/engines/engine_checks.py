"""A conformance suite that any engine can run, on the bundle that it was opened with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.config import BundleConfig
from poolsieve.designs import NO_IMAGE
from poolsieve.engines.engine import Engine, FrontFeatures, HeadOutput, NetworkOutput

CLOSE = {"fp32": 1e-4, "low": 0.05}
"""Differences that are put down to rounding, as a share of the largest value if that is above 1."""
IMAGES, POOLS = 9, 7
THREADS = 4
ROUNDS = 3
USED_AGAIN = 1 << 20
"""Bytes from which memory of outputs may be used again."""
Outputs = dict[str, NDArray[np.float32]]


def check_engine(engine: Engine) -> None:
    """Check that an engine keeps the contract that the rest of poolsieve relies on, on its bundle.

    Checks shapes and types, that outputs are finite, that neither the number nor the order of rows changes
    what is said of one, that the same input gives the same bits, that nothing given is changed and nothing
    that was given out before, that one image or none will do, that a pool of one image is that image however
    it is written, that wrong input is refused with a ValueError, and that threads may share the engine.

    Raises:
        AssertionError: The contract is broken; the message says how.
    """
    images = noise_images(engine.bundle.config, IMAGES)
    outputs = all_outputs(engine, images)
    _require(np.array_equal(images, noise_images(engine.bundle.config, IMAGES)), "images are not changed")
    _check_form(engine, outputs)
    _check_repetition(engine, images, outputs)
    _check_rows(engine, images, outputs)
    _check_held_outputs(engine)
    _check_lone_pools(engine, outputs)
    _check_refusals(engine, images, outputs)
    _check_threads(engine)


def noise_images(config: BundleConfig, images: int, seed: int = 3) -> NDArray[np.uint8]:
    """Images of noise, of the bundle's size.  # (images, S, S, 3)."""
    shape = (images, config.input_size, config.input_size, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def _pools(size: int) -> NDArray[np.int64]:
    """Full pools, one with an empty place in front, and a pool of one."""
    pools = np.random.default_rng(4).integers(0, IMAGES, (POOLS, size))
    pools[2, 0] = pools[4, 1:] = NO_IMAGE
    return pools


def all_outputs(engine: Engine, images: NDArray[np.uint8]) -> Outputs:
    """All that the networks say of images, and of pools of them."""
    outputs = _of_images(engine, images)
    outputs |= _of_features(engine, outputs["features"])
    return outputs | _of_pools(engine, outputs["features"], outputs["gates"], slice(None))


def _of_images(engine: Engine, images: NDArray[np.uint8]) -> Outputs:
    front = engine.front(images)
    _require(isinstance(front, FrontFeatures), "`front` gives FrontFeatures")
    config = engine.bundle.config
    others = _tests(engine, images) if config.joined else _glances(engine, images)
    return {"features": front.features} | others


def _of_features(engine: Engine, features: NDArray[np.float32]) -> Outputs:
    head = engine.head(features)
    _require(isinstance(head, HeadOutput), "`head` gives a HeadOutput")
    others = _glances(engine, features) if engine.bundle.config.joined else _tests(engine, features)
    return {"gates": head.gate, "head logits": head.logits} | others


def _glances(engine: Engine, seen: NDArray[Any]) -> Outputs:
    return {} if engine.bundle.config.glance is None else {"glance logits": engine.glance(seen)}


def _tests(engine: Engine, seen: NDArray[Any]) -> Outputs:
    single = engine.individual(seen)
    _require(isinstance(single, NetworkOutput), "`individual` gives a NetworkOutput")
    return {"individual logits": single.logits, "individual vectors": single.vectors}


def _of_pools(
    engine: Engine, features: NDArray[np.float32], gates: NDArray[np.float32], rows: slice
) -> Outputs:
    outputs = {}
    for size in engine.bundle.config.pool_sizes:
        pooled = engine.pooled(features, _gate(engine, gates), _read_only(_pools(size)[rows]), size)
        _require(isinstance(pooled, NetworkOutput), "`pooled` gives a NetworkOutput")
        outputs[f"logits of pools of {size}"] = pooled.logits
        outputs[f"vectors of pools of {size}"] = pooled.vectors
    return outputs


def _gate(engine: Engine, gate: NDArray[np.float32]) -> NDArray[np.float32] | None:
    return gate if engine.bundle.config.merge == "gated" else None


def _shapes(config: BundleConfig) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "features": (IMAGES, *config.feature_shape),
        "gates": (IMAGES, 1 + config.tallies, *config.feature_shape[1:]),
        "head logits": (IMAGES,),
        "individual logits": (IMAGES, 2),
        "individual vectors": (IMAGES, config.feature_width),
    }
    if config.glance is not None:
        shapes["glance logits"] = (IMAGES,)
    for size in config.pool_sizes:
        shapes[f"logits of pools of {size}"] = (POOLS, size + 1)
        shapes[f"vectors of pools of {size}"] = (POOLS, config.feature_width)
    return shapes


def _check_form(engine: Engine, outputs: Outputs) -> None:
    for name, shape in _shapes(engine.bundle.config).items():
        found = outputs[name]
        _require(found.shape == shape, f"{name} have shape {shape}; not {found.shape}")
        _require(found.dtype == np.float32, f"{name} are float32; not {found.dtype}")
        _require(bool(np.isfinite(found).all()), f"{name} are finite")
    gates = outputs["gates"][:, 0]
    _require(bool(((gates >= 0) & (gates <= 1)).all()), "gates lie between 0 and 1")


def _check_repetition(engine: Engine, images: NDArray[np.uint8], outputs: Outputs) -> None:
    before = {name: values.copy() for name, values in outputs.items()}
    again = all_outputs(engine, images)
    for name, values in before.items():
        _require(np.array_equal(again[name], values), f"the same images give the same bits; {name} differ")
    all_outputs(engine, images[::-1])
    for name, values in before.items():
        _require(np.array_equal(outputs[name], values), f"{name} that were given out stay as they were")


def _check_rows(engine: Engine, images: NDArray[np.uint8], outputs: Outputs) -> None:
    """Rows by themselves, none, and all in reverse, in arrays that are views and may not be written."""
    features, gates = _read_only(outputs["features"]), _read_only(outputs["gates"])
    rows_asked = [slice(k, k + 1) for k in range(IMAGES)] + [slice(0), slice(2, 7), slice(None, None, -1)]
    for rows in rows_asked:
        found = _of_images(engine, _read_only(images[rows])) | _of_features(engine, features[rows])
        found |= _of_pools(engine, features, gates, rows)
        for name, values in found.items():
            wanted = outputs[name][rows]
            _require(values.shape == wanted.shape, f"{len(wanted)} rows of {name} can be asked for")
            _require(
                _close(engine, values, wanted),
                f"{name} do not depend on what else is asked for, nor on the order",
            )


def _read_only(values: np.ndarray) -> np.ndarray:
    view = values.view()
    view.flags.writeable = False
    return view


def _check_held_outputs(engine: Engine) -> None:
    """With as many images as it takes for memory to be used again."""
    config = engine.bundle.config
    number = 1 + USED_AGAIN // engine.front(noise_images(config, 1)).features.nbytes
    images = np.resize(noise_images(config, IMAGES), (number, config.input_size, config.input_size, 3))
    first = engine.front(images).features
    before = first.copy()
    for shift in range(1, 4):
        engine.front(np.roll(images, shift, axis=0))
    _require(np.array_equal(first, before), "features that were given out stay as they were")


def _check_lone_pools(engine: Engine, outputs: Outputs) -> None:
    features, gates = outputs["features"], outputs["gates"]
    for size in engine.bundle.config.pool_sizes:
        table = np.full((4, size), NO_IMAGE)
        table[0], table[1, 0], table[2, -1], table[3, [0, -1]] = 5, 5, 5, 5
        logits = engine.pooled(features, _gate(engine, gates), table, size).logits
        alone = engine.pooled(features[5:6], _gate(engine, gates[5:6]), [[0]], size).logits
        _require(
            _close(engine, logits, np.broadcast_to(alone, logits.shape)),
            f"a pool of one image is that image, however it is written; in pools of {size}",
        )


def _check_refusals(engine: Engine, images: NDArray[np.uint8], outputs: Outputs) -> None:
    config, features = engine.bundle.config, outputs["features"]
    gate, size = _gate(engine, outputs["gates"]), config.pool_sizes[0]

    def pooled(pools: object, gates: object = gate, pool_size: int = size) -> Callable[[], object]:
        return lambda: engine.pooled(features, gates, pools, pool_size)  # type: ignore[arg-type]

    attempts: dict[str, Callable[[], object]] = {
        "images as floats": lambda: engine.front(images.astype(np.float32)),
        "images of another size": lambda: engine.front(images[:, 1:]),
        "one image that is not in a batch": lambda: engine.front(images[0]),
        "features with a channel too few": lambda: engine.individual(features[:, 1:]),
        "features in double precision": lambda: engine.head(features.astype(np.float64)),
        "a pool with an image that is not there": pooled([[0, IMAGES]]),
        "a pool with image -2": pooled([[0, -2]]),
        "a pool without an image": pooled([[NO_IMAGE, NO_IMAGE]]),
        "a pool that is too large": pooled(np.zeros((1, size + 1), dtype=np.int64)),
        "a pool that is not in a table": pooled([0, 1]),
        "a pool of floats": pooled([[0.0, 1.0]]),
        "a pool size without a network": pooled([[0, 1]], pool_size=max(config.pool_sizes) + 1),
    }
    if gate is None:
        attempts["a gate where features are merged as they are"] = pooled([[0, 1]], outputs["gates"])
    else:
        attempts["a missing gate"] = pooled([[0, 1]], None)
        attempts["gates of other images"] = pooled([[0, 1]], gate[1:])
    if config.glance is None:
        attempts["a glance where there is none"] = lambda: engine.glance(images)
    for name, attempt in attempts.items():
        try:
            attempt()
        except ValueError:
            continue
        except Exception as error:
            kind = type(error).__name__
            raise AssertionError(
                f"contract broken: {name} must be refused with a ValueError, not {kind}: {error}"
            ) from error
        raise AssertionError(f"contract broken: {name} must be refused with a ValueError")


def _check_threads(engine: Engine) -> None:
    config = engine.bundle.config
    images = [noise_images(config, IMAGES, seed) for seed in range(THREADS)]
    alone = [all_outputs(engine, own) for own in images]
    together = threading.Barrier(THREADS)

    def differing(thread: int) -> list[str]:
        together.wait()
        found = [all_outputs(engine, images[thread]) for _ in range(ROUNDS)]
        return [
            name
            for name, values in alone[thread].items()
            if not all(_close(engine, outputs[name], values) for outputs in found)
        ]

    with ThreadPoolExecutor(THREADS) as threads:
        names = {name for found in threads.map(differing, range(THREADS)) for name in found}
    _require(not names, f"threads may share an engine; {', '.join(sorted(names))} differ")


def _close(engine: Engine, found: np.ndarray, wanted: np.ndarray) -> bool:
    if not wanted.size:
        return found.shape == wanted.shape
    return bool(
        np.abs(found - wanted).max() <= CLOSE[engine.precision] * max(1.0, float(np.abs(wanted).max()))
    )


def _require(holds: bool, fact: str) -> None:
    if not holds:
        raise AssertionError(f"contract broken: {fact}")
