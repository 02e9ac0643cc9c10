"""Designs on disk: round trips, published matrices, and damaged files."""

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolsieve.designs import Pooling, PoolingDesign, balanced_design, disjoint_design, random_design

TRIANGLE = PoolingDesign([[0, 1], [0, 2], [1, 2]], 3)


def stored(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["design.npz", "design.txt", "design.csv", "deep/er/design"])
@pytest.mark.parametrize(
    "design", [balanced_design(100, 8, 4), disjoint_design(10, 4), random_design(12, 5, 0.3, 1)]
)
def test_save_and_load_give_the_same_design(tmp_path, name, design):
    path = design.save(tmp_path / name)
    assert path == tmp_path / name
    assert type(design).load(path) == design


def test_an_archive_keeps_the_pool_size_of_a_restricted_design(tmp_path):
    part = balanced_design(100, 8, 4).restrict(9)
    assert part.pool_sizes.max() < 8
    assert Pooling.load(part.save(tmp_path / "part.npz")) == part


@pytest.mark.parametrize(
    "text",
    [
        "110\n101\n011\n",
        "1 1 0\n1 0 1\n0 1 1",
        "1,1,0\r\n1,0,1\r\n0,1,1\r\n",
        "1;1;0\n1;0;1\n0;1;1\n",
        "1\t1\t0\n\n1\t0\t1\n0\t1\t1\n\n",
        "# a comment\n% another\n1 1 0\n1 0 1\n0 1 1\n",
        "\ufeff1,1,0\n1,0,1\n0,1,1\n",
        "1.0 1.0 0.0\n1.0 0 1\n0 1.0 1.0\n",
        "11 0\n10 1\n01 1\n",
    ],
)
def test_published_forms_of_a_matrix_are_read(tmp_path, text):
    assert PoolingDesign.load(stored(tmp_path / "matrix", text)) == TRIANGLE


def test_what_numpy_writes_is_read(tmp_path):
    for options in ({}, {"fmt": "%d"}, {"fmt": "%d", "delimiter": ","}):
        np.savetxt(tmp_path / "matrix.txt", TRIANGLE.dense(), **options)
        assert PoolingDesign.load(tmp_path / "matrix.txt") == TRIANGLE


def test_a_single_column_is_read(tmp_path):
    assert Pooling.load(stored(tmp_path / "matrix", "1\n0\n1\n")) == Pooling([[0], [], [0]], 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("110\n121\n", "line 2, entry 2 is '2'"),
        ("1 1 0\n1 0 -1\n", "line 2, entry 3 is '-1'"),
        ("1 0.5\n", "line 1, entry 2 is '0.5'"),
        ("1 nan\n", "line 1, entry 2 is 'nan'"),
        ("# rows\n110\n\n10\n", "line 4 has 2 entries, line 2 has 3"),
        ("", "no rows"),
        ("# nothing\n", "no rows"),
        ("pool,images\n", "line 1, entry 1 is 'pool'"),
        (b"\x80\x81\x82", "neither a design archive"),
    ],
)
def test_a_damaged_text_matrix_is_refused_with_file_and_place(tmp_path, text, message):
    path = stored(tmp_path / "matrix.txt", text)
    with pytest.raises(ValueError, match=message) as caught:
        Pooling.load(path)
    assert str(path) in str(caught.value)


def test_a_file_with_a_two_by_two_block_names_pools_and_images(tmp_path):
    text = "1 1 0 0\n0 0 1 1\n1 1 0 0\n0 0 1 1\n"
    path = stored(tmp_path / "block.txt", text)
    with pytest.raises(ValueError, match=r"pools 0 and 2 share 2 images \(0, 1\)") as caught:
        PoolingDesign.load(path)
    assert str(path) in str(caught.value)
    assert Pooling.load(path).guarantees.max_shared == 2


def archive(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pools": [[0, 1]]}, "not a design archive"),
        ({"format_version": 2, "images": 2, "pools": [[0, 1]]}, "format 2 is not known"),
        (
            {"format_version": [1, 1], "images": 2, "pools": [[0, 1]]},
            "`format_version` is not a whole number",
        ),
        ({"format_version": 1, "images": 2.5, "pools": [[0, 1]]}, "`images` is not a whole number"),
        ({"format_version": 1, "images": 2, "pools": [0, 1]}, "not an integer table"),
        ({"format_version": 1, "images": 2, "pools": [[0.0, 1.0]]}, "not an integer table"),
        ({"format_version": 1, "images": 2, "pools": [[0, 2]]}, "pool 0 names image 2"),
        ({"format_version": 1, "images": 10**15, "pools": [[0, 2]]}, "20000000 images"),
        ({"format_version": 1, "images": 2, "pools": np.array([[{}]], dtype=object)}, "allow_pickle"),
    ],
)
def test_a_wrong_archive_is_refused(tmp_path, arrays, message):
    path = stored(tmp_path / "design.npz", archive(**arrays))
    with pytest.raises(ValueError, match=message) as caught:
        Pooling.load(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Pooling.load(tmp_path / "none.npz")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_still_the_same(tmp_path, data):
    content = TRIANGLE.save(tmp_path / "design.npz").read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        damaged = content[:place]
    else:
        byte = data.draw(st.integers(0, 255))
        damaged = content[:place] + bytes([byte]) + content[place + 1 :]
    path = stored(tmp_path / "damaged.npz", damaged)
    try:
        design = Pooling.load(path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert design == TRIANGLE
