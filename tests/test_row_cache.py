import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve import row_cache
from poolsieve.folders import lock_folder
from poolsieve.progress import Reporter
from poolsieve.row_cache import RowCache

QUIET = Reporter(quiet=True)
COLUMNS = {"maps": np.dtype(("<f2", (2, 3))), "scores": np.dtype("<f4")}
ROWS = 100
ROW_BYTES = 2 * 2 * 3 + 4


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_cache, "BLOCK_ROWS", 16)


@pytest.fixture
def cache(tmp_path):
    return RowCache(tmp_path / "cache", {"network": "a"}, ROWS, COLUMNS)


def values(rows):
    numbers = np.arange(rows.start, rows.stop)
    return {"maps": numbers[:, None, None] + np.arange(6).reshape(2, 3), "scores": numbers / 7}


class Work:
    """Gives the rows of a block in two parts, notes them, and may be killed in the middle."""

    def __init__(self, fail_in=None):
        self.rows, self._fail_in = [], fail_in

    def __call__(self, block):
        middle = (block.start + block.stop) // 2
        for part in (slice(block.start, middle), slice(middle, block.stop)):
            if self._fail_in is not None and part.stop > self._fail_in:
                raise KeyboardInterrupt
            self.rows += range(part.start, part.stop)
            yield values(part)


def require_all(arrays):
    for name, expected in values(slice(0, ROWS)).items():
        kind = COLUMNS[name]
        assert arrays[name].dtype == kind.base
        assert np.array_equal(arrays[name], expected.astype(kind.base))


def test_what_was_computed_is_found_again(cache):
    assert cache.open() is None
    work = Work()
    require_all(cache.fill("rows", work, QUIET))
    assert work.rows == list(range(ROWS))
    require_all(cache.open())
    again = Work()
    require_all(cache.fill("rows", again, QUIET))
    assert again.rows == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, ROWS), min_size=1, max_size=4))
def test_a_killed_run_goes_on_after_its_last_whole_block(tmp_path_factory, deaths):
    cache = RowCache(tmp_path_factory.mktemp("cache"), {}, ROWS, COLUMNS)
    row_cache.BLOCK_ROWS = 16
    done = 0
    for death in deaths:
        work = Work(fail_in=death)
        if done < ROWS:
            try:
                cache.fill("rows", work, QUIET)
                done = ROWS
            except KeyboardInterrupt:
                assert cache.open() is None
                done = max(done, death // 16 * 16)
    work = Work()
    require_all(cache.fill("rows", work, QUIET))
    assert work.rows == list(range(done, ROWS))


@pytest.mark.parametrize(
    ("damage", "again"),
    [
        ("one bit", range(48, 64)),
        ("of another array", range(48, 64)),
        ("short", range(64, ROWS)),
        ("gone", range(ROWS)),
        ("no progress", range(ROWS)),
        ("nonsense progress", range(ROWS)),
    ],
)
def test_what_is_damaged_is_computed_again(cache, damage, again):
    cache.fill("rows", Work(), QUIET)
    file = cache.folder / ("scores.rows" if damage == "of another array" else "maps.rows")
    row = file.stat().st_size // ROWS
    data = bytearray(file.read_bytes())
    if damage in ("one bit", "of another array"):
        data[50 * row] ^= 1
        file.write_bytes(data)
    elif damage == "short":
        file.write_bytes(data[: 70 * row])
    elif damage == "gone":
        file.unlink()
    elif damage == "no progress":
        (cache.folder / "blocks.json").unlink()
    else:
        (cache.folder / "blocks.json").write_text("[{")
    assert cache.open() is None
    work = Work()
    require_all(cache.fill("rows", work, QUIET))
    assert work.rows == list(again)
    require_all(cache.open())


def test_a_block_that_was_written_but_not_marked_is_not_trusted(cache):
    """As after a power cut: the file is long enough, but not all of it was written."""
    cache.fill("rows", Work(), QUIET)
    marks = json.loads((cache.folder / "blocks.json").read_text())
    (cache.folder / "blocks.json").write_text(json.dumps({block: marks[block] for block in ("0", "1")}))
    with (cache.folder / "maps.rows").open("r+b") as stream:
        stream.seek(50 * 12)
        stream.write(bytes(100))
    work = Work()
    require_all(cache.fill("rows", work, QUIET))
    assert work.rows == list(range(32, ROWS))


def test_a_folder_stands_for_all_that_is_described(tmp_path):
    one = RowCache.folder_below(tmp_path, {"a": 1, "b": [2]})
    assert one == RowCache.folder_below(tmp_path, {"b": [2], "a": 1})
    assert one != RowCache.folder_below(tmp_path, {"a": 1, "b": [3]})


def test_a_folder_of_something_else_is_refused(cache):
    cache.fill("rows", Work(), QUIET)
    with pytest.raises(ValueError, match="of other images or networks; name another --cache-dir"):
        replace(cache, description={"network": "b"}).fill("rows", Work(), QUIET)
    (cache.folder / "description.json").write_text("{")
    with pytest.raises(ValueError, match=r"description.json is damaged .* remove the folder"):
        cache.fill("rows", Work(), QUIET)


def test_what_killed_writes_left_is_removed(cache):
    cache.folder.mkdir()
    left = cache.folder / ".blocks.json.abc.part"
    left.write_bytes(b"{")
    cache.fill("rows", Work(), QUIET)
    assert not left.exists()


def test_too_small_a_disk_is_noticed_before_starting(cache, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(row_cache.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    work = Work()
    with pytest.raises(OSError, match=r"the rows need 0\.00 MB .* only 0\.00 MB are free.*--cache-dir"):
        cache.fill("rows", work, QUIET)
    assert work.rows == []


def test_a_disk_that_fills_up_says_so_and_keeps_what_it_has(tmp_path):
    """On a real file system of 1 MB, which another program fills after the check."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    wide = {"maps": np.dtype(("<f4", (1000,)))}
    cache = RowCache(disk / "cache", {}, ROWS, wide)

    def greedy(block):
        if block.start == 48:
            fill(disk / "fill")
        yield {"maps": np.ones((block.stop - block.start, 1000))}

    try:
        with pytest.raises(OSError, match=r"disk is full: the rows need 0\.40 MB.*what is already cached"):
            cache.fill("rows", greedy, QUIET)
        (disk / "fill").unlink()
        rows = []

        def rest(block):
            rows.append(block.start)
            yield {"maps": np.ones((block.stop - block.start, 1000))}

        assert (cache.fill("rows", rest, QUIET)["maps"] == 1).all()
        assert rows == [48, 64, 80, 96]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill(file):
    try:
        with file.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
    except OSError as error:
        assert error.errno == errno.ENOSPC


BUILD = """
import sys, time
from pathlib import Path
import numpy as np
from poolsieve import row_cache
from poolsieve.folders import lock_folder
from poolsieve.progress import Reporter

row_cache.BLOCK_ROWS = 16
cache = row_cache.RowCache(Path(sys.argv[1]), {}, 100, {"rows": np.dtype("<f4")})

def compute(block):
    time.sleep(0.05)
    yield {"rows": np.arange(block.start, block.stop)}

reporter = Reporter()
with lock_folder(cache.folder, on_wait=lambda: reporter.line("waiting")):
    assert (cache.fill("rows", compute, reporter)["rows"] == np.arange(100)).all()
"""


def start(folder):
    return subprocess.Popen([sys.executable, "-c", BUILD, folder], stderr=subprocess.PIPE, text=True)


def test_two_processes_make_one_cache_between_them(tmp_path):
    processes = [start(tmp_path / "cache") for _ in range(2)]
    messages = [process.communicate(timeout=100)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], messages
    assert sum("rows: done in" in text for text in messages) == 1
    assert sum("rows: from " in text for text in messages) == 1


def test_a_cache_that_is_held_is_waited_for(tmp_path):
    folder = tmp_path / "cache"
    with lock_folder(folder):
        process = start(folder)
        assert process.stderr.readline() == "waiting\n"
        assert not (folder / "blocks.json").exists()
    assert process.wait(timeout=100) == 0
    process.stderr.close()


def test_a_process_killed_while_filling_leaves_the_folder_free(tmp_path):
    folder = tmp_path / "cache"
    process = start(folder)
    while not (folder / "blocks.json").exists():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    marked = len(json.loads((folder / "blocks.json").read_text()))
    assert 0 < marked < 7
    messages = start(folder).communicate(timeout=100)[1]
    assert "done in" in messages and "waiting" not in messages and "damaged" not in messages
