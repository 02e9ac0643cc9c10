"""Memory that engines use again."""

import sys

import numpy as np

from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
from poolsieve.engines.buffers import Buffers

SHAPE = (3, 1 << 19)


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_that_nobody_holds_is_given_again():
    buffers = Buffers()
    first = buffers.empty(SHAPE, "float32")
    where = address(first)
    del first
    assert address(buffers.empty(SHAPE, "float32")) == where


def test_what_is_held_is_never_given_again():
    buffers = Buffers()
    held = []
    for number in range(10):
        array = buffers.empty(SHAPE, "float32")
        array[:] = number
        held.append(array[number % 3 :: 2, 7:])  # a slice holds the memory as well as the whole does
        del array
    assert all((part == number).all() for number, part in enumerate(held))


def test_another_size_gets_what_fits_it():
    buffers = Buffers()
    for rows in (3, 2, 100, 1, 4):
        array = buffers.empty((rows, 1 << 19), "float32")
        assert array.shape == (rows, 1 << 19)
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        array[:] = rows
    assert buffers.empty((0, 5), "float32").shape == (0, 5)


def test_free_memory_of_other_sizes_is_let_go():
    """Or chunks of several sizes would leave a block of each."""
    buffers = Buffers()
    for rows in (10, 40, 160, 640):
        array = buffers.empty((rows, 1 << 18), "uint8")
        address_of_last = address(array)
        del array
    assert [block.nbytes for block in buffers._blocks] == [640 << 18]
    assert address(buffers.empty((600, 1 << 18), "uint8")) == address_of_last


def test_an_engine_holds_nothing_of_a_chunk_that_is_done():
    """Or the features of two chunks would take memory, and the pixels of the last one."""
    engine = open_engine(load_bundle("firearms"), "openvino", threads=1)
    side = engine.bundle.config.input_size
    pixels = np.zeros((4, side, side, 3), dtype=np.uint8)
    before = sys.getrefcount(pixels)
    where = address(engine.front(pixels).features)
    assert address(engine.front(pixels).features) == where
    assert sys.getrefcount(pixels) == before
