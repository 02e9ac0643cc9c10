"""Decoders of one's own: a class in a module or a file, named on the command line. Its code is run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from poolsieve.decoders.decoder import Decoder, decoder_name


def load_plugin(text: str) -> str:
    """Import a decoder, whose class is decorated with `register_decoder`; gives the name that it has there.

    Args:
        text: `module:Class` with a module that Python can import, or `file.py:Class`. The code is run, with
            all rights of the user.

    Raises:
        ValueError: There is no such module, file or class, it is no decoder, its name is taken, or its code
            fails; the message says which.
    """
    place, _, class_name = text.rpartition(":")
    if not place or not class_name.isidentifier():
        raise ValueError(f"plugin {text!r}: write module:Class, or file.py:Class")
    module = _imported(text, place)
    found = getattr(module, class_name, None)
    if found is None:
        there = [name for name, value in vars(module).items() if _is_decoder(value)]
        raise ValueError(
            f"plugin {text!r}: {place} has no class {class_name}; decoders in it: "
            f"{', '.join(there) or 'none'}"
        )
    if not _is_decoder(found):
        raise ValueError(
            f"plugin {text!r}: {class_name} is no decoder; derive it from poolsieve.decoders.Decoder"
        )
    try:
        decoder = found()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"plugin {text!r}: {class_name}() fails ({error}); a decoder has a method _decode, and a default "
            "for every parameter"
        ) from error
    try:
        return decoder_name(decoder)
    except ValueError as error:
        raise ValueError(f"plugin {text!r}: {error}") from None


def _is_decoder(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Decoder) and value is not Decoder


def _imported(text: str, place: str) -> ModuleType:
    file = Path(place)
    if file.suffix == ".py" and not file.is_file():
        raise ValueError(f"plugin {text!r}: there is no file {place}")
    try:
        return _run_file(file) if file.suffix == ".py" else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise ValueError(f"plugin {text!r} needs the module {error.name}, which is not there") from error
        raise ValueError(
            f"plugin {text!r}: no module is named {error.name}; install it, or name its file: "
            f"{error.name}.py:…"
        ) from error
    except Exception as error:  # a stranger's code may raise anything
        raise ValueError(f"plugin {text!r} fails: {type(error).__name__}: {error}") from error


def _run_file(file: Path) -> ModuleType:
    """The module in a file; run once, however often it is asked for."""
    name = str(file.resolve())  # no other module is called so
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # data classes look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
