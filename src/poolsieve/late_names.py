"""Names that a package offers without importing, until they are asked for, the modules that define them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def late_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Args:
        package: Its `__name__`.
        places: By the name that it offers, the module of the package that defines it; the name itself for a
            module. No other module may have the name of what is offered, as importing that would hide it.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{places[name]}")
        return module if places[name] == name else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(importlib.import_module(package)), *places})

    return find, names
