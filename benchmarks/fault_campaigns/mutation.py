"""Bytes with something wrong in them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np

MOST_CHANGES = 4
_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_NUMBERS = (0, 1, 2, 255, 256, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
_PNG = b"\x89PNG\r\n\x1a\n"
Change = Callable[[bytearray, Sequence[bytes], np.random.Generator], bytes | bytearray]


def mutate(data: bytes, others: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """The bytes after a few changes.

    Args:
        data: What to change.
        others: Files whose parts may get into it.
        rng: Decides about all.
    """
    changed = data
    for _ in range(min(int(rng.geometric(0.6)), MOST_CHANGES)):
        change = _CHANGES[int(rng.integers(len(_CHANGES)))]
        changed = bytes(change(bytearray(changed or b"\0"), others, rng))
    if changed.startswith(_PNG) and rng.random() < 0.7:
        return with_right_sums(changed)  # else hardly anything gets past the first chunk
    return changed


def with_right_sums(data: bytes) -> bytes:
    """A PNG whose chunks have the sums of what is in them now."""
    parts, at = [data[: len(_PNG)]], len(_PNG)
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            break
        parts += [data[at:end], struct.pack(">I", zlib.crc32(data[at + 4 : end]))]
        at = end + 4
    return b"".join([*parts, data[at:]])


def _place(data: bytearray, rng: np.random.Generator) -> int:
    """Somewhere, more often near the beginning, where headers are."""
    share = rng.random() ** (3 if rng.random() < 0.5 else 1)
    return min(int(share * len(data)), len(data) - 1)


def _length(data: bytearray, rng: np.random.Generator) -> int:
    return int(min(len(data), 2 ** rng.uniform(0, 12)))


def _flip_bits(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    for _ in range(int(rng.integers(1, 9))):
        data[_place(data, rng)] ^= 1 << int(rng.integers(8))
    return data


def _set_bytes(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    for _ in range(int(rng.integers(1, 9))):
        data[_place(data, rng)] = int(rng.choice(_BYTES))
    return data


def _set_number(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    size, order = int(rng.choice((2, 4))), ("little", "big")[int(rng.integers(2))]
    number = int(rng.choice(_NUMBERS)) % 256**size
    at = _place(data, rng)
    data[at : at + size] = number.to_bytes(size, "little" if order == "little" else "big")
    return data


def _cut_off(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    return data[: int(rng.integers(len(data)))]


def _remove(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    at = _place(data, rng)
    del data[at : at + _length(data, rng)]
    return data


def _repeat(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    at = _place(data, rng)
    part = data[at : at + _length(data, rng)]
    data[at:at] = part * int(rng.integers(1, 20))
    return data


def _insert(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    at = _place(data, rng)
    data[at:at] = rng.bytes(_length(data, rng))
    return data


def _overwrite(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    at, length = _place(data, rng), _length(data, rng)
    data[at : at + length] = bytes((int(rng.choice(_BYTES)),)) * len(data[at : at + length])
    return data


def _move(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytearray:
    at = _place(data, rng)
    part = data[at : at + _length(data, rng)]
    del data[at : at + len(part)]
    to = int(rng.integers(len(data) + 1))
    data[to:to] = part
    return data


def _graft(data: bytearray, others: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """The end of another file in place of its own."""
    other = others[int(rng.integers(len(others)))] if others else bytes(data)
    return bytes(data[: _place(data, rng)]) + other[int(rng.integers(len(other) + 1)) :]


_CHANGES: tuple[Change, ...] = (
    *(_flip_bits, _set_bytes, _set_number),
    *(_cut_off, _remove, _repeat, _insert, _overwrite, _move, _graft),
)
