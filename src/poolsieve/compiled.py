"""The decorators for numba kernels: compiled once, kept on disk where that is possible."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""No entrance for callers in C: nobody uses it, and it takes time to compile."""

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel to machine code and cache it beside the package or in the user's cache folder.

    A kernel may run on several threads at once (it holds no lock), and a division by zero gives infinity
    as in numpy. Where no cache can be written (a read-only install without a home, a full disk) the kernel is
    compiled afresh in each process instead of failing.
    """
    return cast(Kernel, _Kernel(function))


def compiled_within(function: Kernel) -> Kernel:
    """Let kernels call a function, compiled as a part of them; called from Python it runs as Python.

    It gets neither an entrance from Python nor a file of its own, which take about as long to compile as a
    short function itself.
    """
    return cast(Kernel, _InnerFunction(function))


class _InnerFunction:
    """A function that numba is asked about when it is first needed: to import numba takes a while."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """What kernels take it for."""
        return self.dispatcher._numba_type_

    @property
    def dispatcher(self) -> Any:
        """The compiled form, which is kept: numba's type refers to it weakly."""
        if "made" not in vars(self):
            vars(self).setdefault("made", self._make())  # one for all threads, without a lock
        return vars(self)["made"]

    def _make(self) -> Any:
        import numba

        options: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True}
        return numba.njit(**options)(self._function)


class _Kernel(_InnerFunction):
    """A function that runs compiled."""

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    def _make(self) -> Any:
        import numba

        try:
            kernel = numba.njit(cache=True, **_OPTIONS)(self._function)
        except RuntimeError:  # numba: "no locator available"
            return numba.njit(**_OPTIONS)(self._function)
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
