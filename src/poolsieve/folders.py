"""Folders that one process at a time may write to, and what a killed one leaves in them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from poolsieve.files import nearest_present

LOCK_FILE = "lock"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_folder(folder: Path, option: str) -> None:
    """Raise ValueError at once, before long work, if no files can be written below `folder`.

    It need not exist yet; the message names the command's `option` that it comes from.
    """
    present = nearest_present(folder)
    if not present.is_dir():
        raise ValueError(f"{option} {folder}: {present} is a file; name a folder with {option}")
    if not os.access(present, os.W_OK | os.X_OK):
        raise ValueError(
            f"{option} {folder}: the folder {present} cannot be written to; name another with {option}, or "
            "give yourself the right to write there"
        )


@contextmanager
def lock_folder(
    folder: Path, on_wait: Callable[[], None] | None = None, *, if_held: str | None = None
) -> Iterator[None]:
    """Hold a folder while the block runs; the lock goes with the process, however it ends.

    The folder is made if need be, and a file `lock` in it, which stays. `on_wait` is called once if another
    process holds the folder, before waiting for it.

    Raises:
        TimeoutError: Another process holds the folder, and `on_wait` is None.
        ValueError: The same, with the message `if_held` if there is one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if if_held is not None:
            raise ValueError(if_held) from None
        if on_wait is None:
            raise
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def is_leftover(file: Path) -> bool:
    """Whether a file is the temporary one of a write that was killed (see `write_atomically`)."""
    return file.name.startswith(".") and file.name.endswith(".part")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed writes from a folder that is locked."""
    if folder.is_dir():
        for file in folder.iterdir():
            if is_leftover(file):
                file.unlink(missing_ok=True)
