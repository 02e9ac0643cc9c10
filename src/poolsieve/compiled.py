"""The decorator for numba kernels: compiled once, kept on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel to machine code and cache it beside the package or in the user's cache folder.

    A kernel may run on several threads at once (it holds no lock), and a division by zero gives infinity
    as in numpy. Where no cache folder can be written, as in a read-only install without a home, the kernel
    is compiled afresh in each process instead of failing.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return numba.njit(**options)(function)
