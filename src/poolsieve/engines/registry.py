"""Choosing an engine by name."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Literal, get_args

from poolsieve.bundles import Bundle
from poolsieve.engines.engine import Engine
from poolsieve.engines.probing import ensure_precision

SettledPrecision = Literal["fp32", "low", "int8"]


@dataclass(frozen=True)
class _EngineEntry:
    """The class of an engine, how to install it, and with which precisions it might end the process."""

    class_name: str
    install: str
    probed: tuple[str, ...] = ("int8",)


_ENGINES = {
    "openvino": _EngineEntry("OpenVinoEngine", "pip install openvino", ("low", "int8")),
    "onnxruntime": _EngineEntry("OnnxRuntimeEngine", "pip install onnxruntime"),
    "torch": _EngineEntry("TorchEngine", "pip install 'poolsieve[train]'", ("low",)),
}
"""All engines by the package that each needs, the fastest on a CPU first; `NAME_engine` is its module."""


def list_engines() -> list[str]:
    """Names of the engines that are installed, best first."""
    return [name for name in _ENGINES if importlib.util.find_spec(name) is not None]


def open_engine(
    bundle: Bundle,
    engine: str = "auto",
    *,
    threads: int | None = None,
    precision: SettledPrecision = "fp32",
    batch_size: int | None = None,
) -> Engine:
    """Make a bundle ready to run.

    Args:
        bundle: From `poolsieve.bundles.load_bundle`.
        engine: "openvino", "onnxruntime", "torch", or "auto" for the best that is installed.
        threads: Threads to compute on; None lets the engine choose.
        precision: "fp32"; "low" for half precision where engine and processor have it; "int8" for a bundle
            whose graphs are in int8, which is run so by "fp32" too.
        batch_size: Images or pools that go through the network at once; None takes what
            suits the engine.

    Raises:
        ValueError: There is no such engine, or it cannot do what was asked.
        ImportError: It is not installed; the message says how to install it.
    """
    engine = resolve_engine(bundle, engine)
    entry = _ENGINES[engine]
    if precision not in get_args(SettledPrecision):
        raise ValueError(
            f"precision is {precision!r}; give {', '.join(map(repr, get_args(SettledPrecision)))}"
        )
    if precision == "int8":
        if bundle.config.precision != "int8":
            raise ValueError(f"the graphs of {bundle.path} are not in int8; open an int8 edition of it")
        precision = "fp32"  # for the rest of the graphs
    if engine in list_engines():  # probed before the package is imported
        if precision in entry.probed:
            ensure_precision(engine, precision)
        if bundle.config.precision in entry.probed:
            ensure_precision(engine, bundle.config.precision, bundle)
    return engine_class(engine)(bundle, threads=threads, precision=precision, batch_size=batch_size)


def resolve_engine(bundle: Bundle, engine: str) -> str:
    """The engine that a name stands for, "auto" for the best that is installed.

    Raises:
        ValueError: There is no such engine.
        ImportError: None is installed.
    """
    if engine == "auto":
        installed = list_engines()
        if not installed:
            raise ImportError(f"no engine is installed; install one with: {_ENGINES['openvino'].install}")
        runnable = [name for name in installed if name != "torch" or bundle.has_weights]
        return (runnable or installed)[0]  # torch alone complains of the missing weights
    if engine not in _ENGINES:
        raise ValueError(f"no engine is called {engine!r}; there are auto, {', '.join(_ENGINES)}")
    return engine


def engine_class(engine: str) -> type[Engine]:
    """The class of an engine that there is by this name.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    entry = _ENGINES[engine]
    try:
        module = importlib.import_module(f"poolsieve.engines.{engine}_engine")
    except ImportError as error:
        raise ImportError(
            f"the engine {engine} cannot be loaded ({error}); install it: {entry.install}"
        ) from error
    kind: type[Engine] = getattr(module, entry.class_name)
    return kind
