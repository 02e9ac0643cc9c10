"""Verdicts come when they are decided: a chunk is full, an image has waited enough, or somebody asks.

Sources wait here until a verdict has been received, so that a test would not end if it came later. No verdict
depends on how long anything took, except where it says so.
"""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
from planted import WAYS, PlantedEngine, moderator_by, planted_moderator, planted_pixels, write_images

pytestmark = pytest.mark.timeout(120)
PATIENCE = 60
"""Seconds after which a test fails that would wait for ever."""
SIZE = 4


def individual(**options):
    return planted_moderator("individual", chunk=SIZE, **options)


def truth_of(size):
    return np.arange(size) % 7 == 0


def own_threads():
    names = ("reading", "judging", "listing")
    return [thread for thread in threading.enumerate() if thread.name.startswith(names)]


def waited_for(event):
    assert event.wait(PATIENCE), "no verdict came"


@pytest.mark.parametrize("way", WAYS)
def test_a_generator_a_patient_wait_and_a_stream_give_the_verdicts_of_a_list(way):
    pixels = planted_pixels(truth_of(250))
    expected = list(moderator_by(way).moderate(list(pixels)))
    assert list(moderator_by(way).moderate(image for image in pixels)) == expected
    assert list(moderator_by(way).moderate(list(pixels), longest_wait=1e9)) == expected
    moderator = moderator_by(way)
    with moderator.stream(longest_wait=None) as stream:
        futures = [stream.submit(image) for image in pixels]
    assert [future.result(0) for future in futures] == expected
    assert stream.totals is moderator.totals
    assert moderator.totals.images == 250
    counts = moderator.totals.state() | {"meter": moderator.totals.meter.share}
    plain = moderator_by(way)
    list(plain.moderate(pixels))
    assert counts == plain.totals.state() | {"meter": plain.totals.meter.share}


@pytest.mark.parametrize("seconds", [None, 1e9])
def test_a_full_chunk_does_not_wait_for_what_comes_after_it(seconds):
    received = threading.Event()

    def source():
        for number, pixels in enumerate(planted_pixels(truth_of(3 * SIZE))):
            if number == SIZE:
                waited_for(received)
            yield pixels

    verdicts = individual().moderate(source(), longest_wait=seconds)
    first = [next(verdicts) for _ in range(SIZE)]
    received.set()
    assert [verdict.position for verdict in [*first, *verdicts]] == list(range(3 * SIZE))


def test_an_image_that_has_waited_enough_is_judged_with_those_that_are_there():
    turns = [threading.Event() for _ in range(5)]

    def source():
        for pixels, turn in zip(planted_pixels(truth_of(5)), turns, strict=True):
            yield pixels
            waited_for(turn)

    moderator = individual()
    found = []
    for verdict, turn in zip(moderator.moderate(source(), longest_wait=0.01), turns, strict=True):
        found.append(verdict)
        turn.set()  # the next image comes only now, so each is a chunk of its own
    assert [(verdict.position, verdict.chunk) for verdict in found] == [(k, k) for k in range(5)]
    assert [verdict.flagged for verdict in found] == truth_of(5).tolist()
    assert (moderator.totals.images, moderator.totals.meter.images) == (5, 5)


def test_short_chunks_are_pooled_by_their_positions():
    """Nine images, then a hundred: the second chunk's pools name images by their place in the source."""
    moderator = planted_moderator("adaptive")
    pixels = planted_pixels(truth_of(109))
    with moderator.stream(longest_wait=None) as stream:
        early = [stream.submit(image) for image in pixels[:9]]
        stream.flush()
        wait(early, PATIENCE)
        late = [stream.submit(image) for image in pixels[9:]]
    verdicts = [future.result(0) for future in early + late]
    assert [verdict.flagged for verdict in verdicts] == truth_of(109).tolist()
    assert [verdict.position for verdict in verdicts] == list(range(109))
    assert [verdict.chunk for verdict in verdicts] == [0] * 9 + [1] * 100
    for verdict in verdicts[9:]:
        for pool in verdict.pools:
            assert verdict.position in pool.members
            assert min(pool.members) >= 9
            assert pool.count == truth_of(109)[list(pool.members)].sum()


class BrokenSourceError(Exception):
    pass


@pytest.mark.parametrize("seconds", [None, 1e9])
def test_an_error_of_the_source_comes_after_the_verdicts_on_what_came_before(seconds):
    def source():
        yield from planted_pixels(truth_of(2 * SIZE + 1))
        raise BrokenSourceError("the camera fell down")

    found = []
    with pytest.raises(BrokenSourceError, match="the camera fell down"):
        found.extend(individual().moderate(source(), longest_wait=seconds))
    # extend keeps what it had got
    assert [verdict.flagged for verdict in found] == truth_of(2 * SIZE + 1).tolist()
    found = []
    with pytest.raises(TypeError, match="source 1 is a float"):
        found.extend(individual().moderate(iter([planted_pixels([True])[0], 0.5]), longest_wait=seconds))
    assert len(found) == 1


@pytest.mark.parametrize("seconds", [None, 0.01])
def test_leaving_early_ends_the_threads(seconds):
    before = set(own_threads())
    pixels = planted_pixels([True])[0]
    verdicts = individual().moderate((pixels for _ in range(10**9)), longest_wait=seconds)
    next(verdicts)
    verdicts.close()
    for thread in set(own_threads()) - before:  # the one that lists ends with its next image
        thread.join(PATIENCE)
    assert set(own_threads()) == before


def test_leaving_a_source_that_does_not_go_on():
    before, release = set(own_threads()), threading.Event()

    def source():
        yield planted_pixels([True])[0]
        waited_for(release)
        yield planted_pixels([True])[0]

    verdicts = individual().moderate(source(), longest_wait=0.01)
    next(verdicts)
    verdicts.close()
    (listing,) = set(own_threads()) - before
    release.set()
    listing.join(PATIENCE)
    assert not listing.is_alive()


def test_a_source_that_nobody_looked_at_starts_no_thread():
    before = set(own_threads())
    individual().moderate((x for x in planted_pixels([True])), longest_wait=0.01).close()
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        individual().moderate("nowhere", longest_wait=0.01)
    assert set(own_threads()) == before


def test_images_of_several_threads_get_their_own_verdicts(tmp_path):
    truth = truth_of(200)
    files = write_images(tmp_path, truth)
    moderator = individual()
    with moderator.stream(longest_wait=0.01) as stream, ThreadPoolExecutor(8) as threads:
        images = [file if k % 2 else file.read_bytes() for k, file in enumerate(files)]
        names = [None if k % 2 else str(file) for k, file in enumerate(files)]
        verdicts = list(
            threads.map(lambda image, name: stream.submit(image, name=name).result(), images, names)
        )
    assert [verdict.path for verdict in verdicts] == [str(file) for file in files]
    assert [verdict.flagged for verdict in verdicts] == truth.tolist()
    by_position = sorted(verdicts, key=lambda verdict: verdict.position)
    assert [verdict.position for verdict in by_position] == list(range(200))
    numbers = [verdict.chunk for verdict in by_position]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(numbers[-1] + 1))
    assert (moderator.totals.images, moderator.totals.flagged) == (200, truth.sum())


def test_flushing_judges_what_is_there_and_closing_what_is_left():
    stream = individual().stream(longest_wait=None)
    stream.flush()  # nothing is there
    pixels = planted_pixels(truth_of(6))
    first = [stream.submit(image) for image in pixels[:3]]
    assert not wait(first, 0.05).done
    stream.flush()
    assert [future.result(PATIENCE).position for future in first] == [0, 1, 2]
    last = [stream.submit(image) for image in pixels[3:]]
    assert not wait(last, 0.05).done  # that was no promise for those that come later
    stream.close()
    assert [future.result(0).chunk for future in last] == [1, 1, 1]
    with pytest.raises(RuntimeError, match="the stream is closed and takes no more images"):
        stream.submit(pixels[0])
    stream.close()


def test_an_unreadable_image_has_a_verdict_and_a_wrong_one_is_refused():
    with individual().stream() as stream:
        assert stream.submit(b"no image").result(PATIENCE).status == "error"
        with pytest.raises(TypeError, match="the image is a int"):
            stream.submit(3)


def test_an_image_that_nobody_waits_for_any_more_is_not_judged():
    engine = PlantedEngine()
    with individual(engine=engine).stream(longest_wait=None) as stream:
        one, gone, other = (stream.submit(image) for image in planted_pixels([True, True, False]))
        assert gone.cancel()
    assert [one.result(0).position, other.result(0).position] == [0, 1]
    assert engine.rows["individual"] == stream.totals.images == 2


class FailingEngine(PlantedEngine):
    def front(self, images):
        raise RuntimeError("the engine broke")


@pytest.mark.parametrize("seconds", [None, 0.01])
def test_what_an_engine_says_reaches_those_who_wait(seconds):
    moderator = individual(engine=FailingEngine())
    with moderator.stream(longest_wait=seconds) as stream:
        futures = [stream.submit(image) for image in planted_pixels(truth_of(SIZE))]
        for future in futures:
            with pytest.raises(RuntimeError, match="the engine broke"):
                future.result(PATIENCE)
    with pytest.raises(RuntimeError, match="the engine broke"):
        list(moderator.moderate(iter(planted_pixels([True])), longest_wait=seconds))


class SlowEngine(PlantedEngine):
    def front(self, images):
        threading.Event().wait(0.03)
        return super().front(images)


def test_a_slow_engine_makes_those_wait_who_submit():
    waiting = []
    with individual(engine=SlowEngine()).stream(longest_wait=None) as stream:
        futures = []
        for image in planted_pixels(truth_of(15 * SIZE)):
            futures.append(stream.submit(image))
            waiting.append(sum(not future.done() for future in futures))
    assert max(waiting) <= 3 * SIZE  # a chunk is judged and two wait


def test_a_slow_reader_of_verdicts_makes_the_source_wait():
    listed = []

    def source():
        for number, pixels in enumerate(planted_pixels(truth_of(30 * SIZE))):
            listed.append(number)
            yield pixels

    for taken, _ in enumerate(individual().moderate(source(), longest_wait=0.01), 1):
        threading.Event().wait(0.002)
        assert len(listed) <= taken + 6 * SIZE


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_a_wait_must_be_a_time(wrong):
    before = set(own_threads())
    with pytest.raises(ValueError, match=f"longest_wait is {wrong}; give seconds from 0 on, or None"):
        individual().stream(longest_wait=wrong)
    with pytest.raises(ValueError, match=f"longest_wait is {wrong}; give seconds from 0 on, or None"):
        individual().moderate([], longest_wait=wrong)
    assert set(own_threads()) == before


@pytest.mark.parametrize("seconds", [0, float("inf")])
def test_no_wait_and_no_end_of_waiting(seconds):
    pixels = planted_pixels(truth_of(10))
    found = list(individual().moderate(iter(pixels), longest_wait=seconds))
    assert [verdict.flagged for verdict in found] == truth_of(10).tolist()


@pytest.mark.parametrize("way", WAYS)
def test_a_generator_can_be_gone_on_with(way, tmp_path):
    files = write_images(tmp_path, truth_of(250))
    begun = moderator_by(way)
    chunks, states = [], []
    for chunk in begun.moderate_chunks(str(file) for file in files):
        chunks.append(chunk)
        states.append(begun.totals.state())
    names = [verdict.path for verdict in chunks[0]]
    rest = moderator_by(way).moderate_chunks((str(file) for file in files), done=names, state=states[0])
    assert list(rest) == chunks[1:]
