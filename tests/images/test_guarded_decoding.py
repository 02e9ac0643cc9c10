"""Files that are made to harm cost themselves and nothing else."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import hostile
import numpy as np
import pytest
from PIL import Image

from poolsieve.images import UnreadableImage, decode_image, plain_view
from poolsieve.images.guarded_decoding import GuardedDecoder, shared_decoder

SMALL = hostile.encoded(Image.new("RGB", (8, 8), (1, 2, 3)), format="png")
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and /proc are Linux's")


@pytest.fixture
def decoder():
    with_little_time = GuardedDecoder(time_limit=0.3)
    yield with_little_time
    with_little_time.close()


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def zombies():
    """Ended children of this process that nobody has waited for."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == os.getpid():
            found.append(entry.parent.name)
    return found


def no_zombie_stays(seconds=20):
    """A process that has ended is one until its parent, which does that at once, has waited for it."""
    deadline = time.monotonic() + seconds
    while zombies() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not zombies()


def ends(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@pytest.mark.parametrize("ending", ["jpeg", "png", "gif", "webp", "bmp"])
@pytest.mark.parametrize("resize_mode", ["pad", "stretch", None])
def test_it_decodes_as_this_process_does(ending, resize_mode):
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 255, (300, 400, 3), dtype=np.uint8))
    data = hostile.encoded(picture, format=ending)
    (found,) = shared_decoder().decode(data, at_least=64, resize_mode=resize_mode)
    here = decode_image(data, at_least=64)
    assert np.array_equal(found, here if resize_mode is None else plain_view(here, 64, resize_mode))


def test_what_is_wrong_is_said_as_in_this_process():
    for data, reason in (
        (b"", "the file is empty"),
        (b"a text", "not a JPEG"),
        (SMALL[:-30], "damaged or truncated"),
        (hostile.palette_png_without_palette(), "AssertionError"),
    ):
        with pytest.raises(UnreadableImage, match=reason) as caught:
            shared_decoder().decode(data, "some/name.png", at_least=8)
        assert str(caught.value.path) == "some/name.png"


SLOW = {
    "scans": lambda: hostile.jpeg_of_many_scans(90, 4000),
    "run lengths": lambda: hostile.rle_bmp_of_short_lines(4000),
    "tiny Exif": lambda: hostile.jpeg_of_tiny_exif(150_000),
    "segments": lambda: hostile.jpeg_with_segments((0xE2, b"abc"), 1_000_000),
}


@pytest.mark.parametrize("kind", SLOW)
def test_a_file_that_takes_too_long_is_an_error_and_the_next_is_read(decoder, kind):
    with pytest.raises(UnreadableImage, match=r"decoding it took more than 0\.3 seconds"):
        decoder.decode(SLOW[kind](), at_least=8)
    assert decoder.decode(SMALL, at_least=8)[0][0, 0].tolist() == [1, 2, 3]
    assert len(decoder.process_ids()) == 1
    assert no_zombie_stays()


def test_a_thousand_scans_are_refused_before_they_are_decoded():
    data = hostile.jpeg_of_many_scans(1000, 800)
    for decode in (decode_image, shared_decoder().decode):
        with pytest.raises(UnreadableImage, match="scans, more than the limit of 100"):
            decode(data, at_least=8)


@ON_LINUX
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGILL])
def test_a_decoder_that_dies_takes_only_its_file_with_it(number):
    decoder = GuardedDecoder()
    decoder.decode(SMALL, at_least=8)
    (victim,) = decoder.process_ids()
    slow, others, errors = hostile.rle_bmp_of_short_lines(4000), [], []

    def read_slow():
        try:
            decoder.decode(slow, at_least=8)
        except UnreadableImage as error:
            errors.append(error.reason)

    thread = threading.Thread(target=read_slow)
    thread.start()
    while not _works(victim):
        time.sleep(0.01)
    others.append(decoder.decode(SMALL, at_least=8))  # another process, meanwhile
    os.kill(victim, number)
    thread.join()
    others.append(decoder.decode(SMALL, at_least=8))
    assert errors == [f"the decoder died of it ({number.name})"]
    assert [len(found) for found in others] == [1, 1]
    assert victim not in decoder.process_ids()
    decoder.close()


def _works(pid, ticks=5):
    """Whether a process has worked for a while since it was started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    _works.first.setdefault(pid, int(fields[11]))
    return int(fields[11]) - _works.first[pid] >= ticks


_works.first = {}


@ON_LINUX
def test_memory_beyond_what_the_pixels_take_is_refused():
    """150 MB of Python objects from 7 MB of segments."""
    data = hostile.jpeg_with_segments((0xE2, b"abc"), 1_000_000)
    decoder = GuardedDecoder(memory_limit=10_000_000, time_limit=100)
    with pytest.raises(UnreadableImage, match=r"takes more (than 10,000,000 bytes|memory)"):
        decoder.decode(data, at_least=8)
    decoder.close()


@ON_LINUX
def test_images_that_take_more_than_all_memory_are_refused():
    decoder = GuardedDecoder(memory_limit=50_000_000)
    with pytest.raises(UnreadableImage, match="takes more than 50,000,000 bytes to decode"):
        decoder.decode(hostile.huge_webp(), at_least=8)
    large = hostile.encoded(Image.new("L", (4000, 4000)), format="png")
    with pytest.raises(UnreadableImage, match="4000 x 4000 pixels as PNG take 64,000,000 bytes to decode"):
        decoder.decode(large, at_least=8)
    assert decoder.decode(SMALL, at_least=8)
    decoder.close()


@ON_LINUX
def test_memory_of_large_images_is_given_back():
    """Either the process has let go of it, or another one has taken its place."""
    decoder = GuardedDecoder()
    decoder.decode(SMALL, at_least=8)
    before = sum(map(proportional_bytes, decoder.process_ids()))
    for _ in range(3):
        decoder.decode(hostile.huge_webp(4000, 4000), at_least=8)  # 288 MB
        assert sum(map(proportional_bytes, decoder.process_ids())) < before + 100_000_000
    assert decoder.decode(SMALL, at_least=8)
    decoder.close()


@ON_LINUX
def test_idle_processes_end(monkeypatch):
    monkeypatch.setattr("poolsieve.images.guarded_decoding.IDLE_SECONDS", 0.2)
    decoder = GuardedDecoder()
    decoder.decode(SMALL, at_least=8)
    (pid,) = decoder.process_ids()
    assert ends(pid)
    assert decoder.process_ids() == []
    assert no_zombie_stays()
    assert decoder.decode(SMALL, at_least=8)
    decoder.close()


SCRIPT = """
import sys, time
from poolsieve.images.guarded_decoding import shared_decoder
shared_decoder().decode(bytes.fromhex({small!r}), at_least=8)
print(*shared_decoder().process_ids(), flush=True)
{rest}
"""


def run_script(rest, folder, feed=False):
    script = SCRIPT.format(small=SMALL.hex(), rest=rest)
    command = [sys.executable, "-"] if feed else [sys.executable, "-c", script]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    if feed:
        process.stdin.write(script)
    process.stdin.close()
    return process, int(process.stdout.readline())


@ON_LINUX
@pytest.mark.parametrize("end", ["exit", "SIGKILL", "SIGINT"])
def test_processes_end_with_the_one_that_started_them(tmp_path, end):
    process, worker = run_script("" if end == "exit" else "time.sleep(600)", tmp_path)
    if end != "exit":
        process.send_signal(getattr(signal, end))
    errors = process.stderr.read()
    process.wait()
    assert ends(worker)
    assert ("KeyboardInterrupt" in errors) == (end == "SIGINT")
    assert errors.count("Traceback") == (end == "SIGINT")
    process.stdout.close()
    process.stderr.close()


@ON_LINUX
def test_a_script_without_a_main_guard_that_is_read_from_standard_input(tmp_path):
    process, worker = run_script("sys.exit(7)", tmp_path, feed=True)
    with process:
        errors = process.stderr.read()
    assert (process.returncode, errors) == (7, "")
    assert ends(worker)


@ON_LINUX
def test_nothing_in_the_current_folder_is_imported(tmp_path):
    (tmp_path / "PIL.py").write_text("raise SystemExit('run')")
    script = "import sys; sys.path.remove('')\n" + SCRIPT.format(small=SMALL.hex(), rest="")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@ON_LINUX
def test_a_forked_process_has_processes_of_its_own(tmp_path):
    rest = f"""
import os, warnings
warnings.simplefilter("ignore")
mine = shared_decoder().process_ids()
child = os.fork()
if not child:
    assert shared_decoder().process_ids() == []
    shared_decoder().decode(bytes.fromhex({SMALL.hex()!r}), at_least=8)
    assert not set(shared_decoder().process_ids()) & set(mine)
    shared_decoder().close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert shared_decoder().decode(bytes.fromhex({SMALL.hex()!r}), at_least=8)
assert shared_decoder().process_ids() == mine
"""
    process, worker = run_script(rest, tmp_path)
    with process:
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, "")
    assert ends(worker)


def test_many_threads_share_the_processes():
    decoder = GuardedDecoder(processes=2)
    pictures = [Image.new("RGB", (8, 8), (k, 0, 0)) for k in range(40)]
    found = {}

    def read(start):
        for k in range(start, 40, 8):
            (pixels,) = decoder.decode(hostile.encoded(pictures[k], format="png"), at_least=8)
            found[k] = int(pixels[0, 0, 0])

    threads = [threading.Thread(target=read, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: k for k in range(40)}
    assert len(decoder.process_ids()) <= 2
    decoder.close()
    assert decoder.process_ids() == []


def test_a_process_that_cannot_start_is_an_error_in_words(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    decoder = GuardedDecoder()
    with pytest.raises(RuntimeError, match="process that decodes images could not be started"):
        decoder.decode(SMALL, at_least=8)
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/nowhere/python")
    with pytest.raises(RuntimeError, match="could not be started: '/nowhere/python'"):
        decoder.decode(SMALL, at_least=8)
    assert decoder.process_ids() == []


PROMISE = 1_100_000_000
"""Bytes, as docs/security.md has it."""
MANY_READERS = """
import sys
from planted import PlantedEngine, planted_bundle
from poolsieve.moderation import Moderator
from poolsieve.schemes import make_scheme
moderator = Moderator(
    planted_bundle(), PlantedEngine(), make_scheme("individual", (4, 8)), seed=1, reading_threads=8
)
for verdict in moderator.moderate(sys.argv[1]):
    print(verdict.status, verdict.reason, flush=True)
"""


def proportional_bytes(pid):
    """Memory of a process and its children; what several share counts once."""
    found = 0
    for one in (pid, *children(pid)):
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        found += sum(1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return found


def children(pid):
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for child in task.read_text().split()
    ]


def progressive_cmyk():
    return hostile.encoded(
        Image.new("CMYK", (6000, 5000), (9, 99, 0, 7)), format="jpeg", progressive=True, quality=30
    )


def animated_webp():
    frames = [Image.new("RGB", (5000, 5000), (k, 0, 0)) for k in (5, 200)]
    return hostile.encoded(
        frames[0], format="webp", save_all=True, append_images=frames[1:], lossless=True, method=0
    )


def transparent_png():
    return hostile.encoded(Image.new("RGBA", (10_000, 9_000)), format="png", compress_level=1)


@ON_LINUX
def test_memory_stays_below_the_promise_with_eight_readers(tmp_path):
    """Decoded by threads of one process, these took 1.7 GB."""
    segments = hostile.jpeg_with_segments((0xE2, bytes(500)), 100_000)
    large = [hostile.huge_webp(), animated_webp(), progressive_cmyk(), transparent_png(), segments]
    (tmp_path / "photos").mkdir()
    for number, kind in enumerate((0, 1, 2, 0, 3, 1, 2, 4)):
        (tmp_path / f"photos/{number}").write_bytes(large[kind])
    command = [sys.executable, "-c", MANY_READERS, str(tmp_path / "photos")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    most = 0
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most = max(most, proportional_bytes(process.pid))
            time.sleep(0.02)
        lines = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert [line.split()[0] == "error" for line in lines] == [k in (0, 3) for k in range(8)], lines
    assert 300_000_000 < most < PROMISE  # it was looked at while it worked
