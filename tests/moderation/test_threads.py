"""One Moderator in the hands of several threads, and one image at a time."""

import io
import pydoc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from planted import SIDE, WAYS, PlantedEngine, moderator_by, planted_moderator, planted_pixels, write_images

from poolsieve.moderation import Moderator

THREADS = 8


def truth_of(size, every):
    return np.arange(size) % every == 0


def in_threads(function):
    """What eight threads get of a function of their number."""
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(function, range(THREADS)))


@pytest.mark.parametrize("way", WAYS)
def test_eight_threads_get_the_verdicts_of_one(way):
    rare, common = planted_pixels(truth_of(330, 90)), planted_pixels(truth_of(330, 3))
    alone = [list(moderator_by(way).moderate(pixels)) for pixels in (rare, common)]
    shared = moderator_by(way)
    found = in_threads(lambda k: list(shared.moderate((rare, common)[k % 2])))
    for k, verdicts in enumerate(found):
        assert verdicts == alone[k % 2]


def test_runs_that_take_turns_do_not_learn_from_each_other():
    """Bad images are rare in one and common in the other, so that they follow different plans."""
    sources = [planted_pixels(truth_of(520, every)) for every in (500, 2)]
    alone = [list(moderator_by("auto").moderate_chunks(pixels)) for pixels in sources]
    schemes = [{verdict.scheme for chunk in chunks for verdict in chunk} for chunks in alone]
    assert schemes[0] != schemes[1]
    shared = moderator_by("auto")
    first = shared.moderate_chunks(sources[0])
    second = shared.moderate_chunks(sources[1])
    turns = list(zip(first, second, strict=True))
    assert [one for one, _ in turns] == alone[0]
    assert [other for _, other in turns] == alone[1]
    assert (shared.totals.images, shared.totals.flagged) == (520, 260)  # of the run that began last


class OneAtATime(PlantedEngine):
    """Notices whether another thread is in it."""

    def __init__(self):
        super().__init__()
        self.inside, self.together = threading.Lock(), False

    def front(self, images):
        free = self.inside.acquire(blocking=False)
        self.together |= not free
        threading.Event().wait(0.001)  # others may come now
        if free:
            self.inside.release()
        return super().front(images)


def test_an_engine_that_bears_one_thread_only_is_asked_by_one_at_a_time():
    engine = OneAtATime()
    shared = planted_moderator("individual", engine=engine, chunk=4)
    pixels = planted_pixels(truth_of(40, 5))
    in_threads(lambda k: list(shared.moderate(pixels)) if k % 2 else [shared.judge(x) for x in pixels[:10]])
    assert not engine.together


@pytest.mark.parametrize("way", WAYS)
def test_one_image_is_judged_alone_and_leaves_no_trace(way):
    pixels = planted_pixels([False, True])
    moderator = moderator_by(way)
    fresh = [moderator.judge(image) for image in pixels]
    assert [verdict.flagged for verdict in fresh] == [False, True]
    for verdict in fresh:
        assert (verdict.position, verdict.chunk, verdict.pools) == (0, 0, ())
    assert moderator.totals.images == 0
    run = moderator.moderate_chunks(planted_pixels(truth_of(416, 2)))
    alone = list(moderator_by(way).moderate_chunks(planted_pixels(truth_of(416, 2))))
    found = []
    for chunk in run:
        found.append(chunk)
        assert [moderator.judge(image) for image in pixels] == fresh  # whatever the run has learnt
    assert found == alone
    assert moderator.totals.images == 416


def test_one_image_of_every_kind_has_the_same_verdict(tmp_path):
    (path,) = write_images(tmp_path, [True])
    data, pixels = path.read_bytes(), planted_pixels([True])[0]
    moderator = planted_moderator("individual")
    images = [str(path), path, data, bytearray(data), memoryview(data), io.BytesIO(data)]
    images += [Image.open(path), Image.fromarray(pixels), pixels]
    verdicts = [moderator.judge(image) for image in images]
    assert {(verdict.status, verdict.score) for verdict in verdicts} == {("flagged", verdicts[0].score)}
    assert len({verdict.sha256 for verdict in verdicts[:6]}) == 1
    assert moderator.judge(data, name="upload 7").path == "upload 7"
    assert verdicts == [
        next(iter(moderator.moderate([image]))) for image in [*images[:5], io.BytesIO(data)]
    ] + [next(iter(moderator.moderate(image))) for image in images[6:]]


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("nowhere.png", "the file does not exist"),
        (".", "Is a directory"),
        (b"", "the file is empty"),
        (b"no image", "not a JPEG"),
        (io.BytesIO(b"no image"), "not a JPEG"),
        (Image.new("RGB", (0, 0)), "no image"),
    ],
)
def test_one_image_that_cannot_be_read_has_a_verdict(image, reason):
    verdict = planted_moderator().judge(image)
    assert (verdict.status, verdict.score, verdict.flagged) == ("error", None, False)
    assert reason in verdict.reason


@pytest.mark.parametrize("wrong", [3, None, [b"x"], {"file": "a.png"}, Image])
def test_what_is_no_image_is_said_in_words(wrong):
    kind = type(wrong).__name__
    with pytest.raises(
        TypeError, match=f"the image is a {kind}; give a path, bytes, an open file, a PIL image"
    ):
        planted_moderator().judge(wrong)
    with pytest.raises(ValueError, match=r"give RGB as uint8 \(H, W, 3\)"):
        planted_moderator().judge(np.zeros((2, SIDE, SIDE, 3), dtype=np.uint8))


def test_eight_threads_may_judge_one_image_that_pillow_has_opened():
    moderator = planted_moderator("individual")
    large = Image.new("RGB", (1500, 1500), (255, 0, 0))
    stream = io.BytesIO()
    large.save(stream, format="png")
    expected = moderator.judge(large)
    for _ in range(5):
        opened = Image.open(io.BytesIO(stream.getvalue()))
        start = threading.Barrier(THREADS)
        found = in_threads(lambda _, opened=opened, start=start: start.wait() < 0 or moderator.judge(opened))
        assert {(verdict.status, verdict.sha256) for verdict in found} == {("flagged", expected.sha256)}


def test_the_help_says_what_may_be_shared():
    assert "Threads may share a Moderator" in pydoc.render_doc(Moderator)
