"""The decorator for numba kernels: compiled once, kept on disk where that is possible."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel to machine code and cache it beside the package or in the user's cache folder.

    A kernel may run on several threads at once (it holds no lock), and a division by zero gives infinity
    as in numpy. Where no cache can be written (a read-only install without a home, a full disk) the kernel is
    compiled afresh in each process instead of failing.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        kernel = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return numba.njit(**options)(function)
    _forgive_failed_saves(kernel)
    return kernel


def _forgive_failed_saves(kernel: Any) -> None:
    """Let a kernel run although its machine code could not be saved.

    Numba raises what the disk says from the first call of the kernel; there is no public hook for it.
    """
    cache = kernel._cache
    save = cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            save(signature, data)

    cache.save_overload = save_if_possible
