"""Stages see images as large as they need them, the same however they were read."""

import io
import tarfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from planted import COST, PlantedEngine, planted_bundle, planted_plans, write_images

from poolsieve.images import guarded_decoding, views
from poolsieve.images.sources import FileItem
from poolsieve.moderation import Moderator
from poolsieve.schemes import make_scheme
from poolsieve.statistics import Estimate

IMAGES = 24
BAD = (3, 4, 17)


class Watching(PlantedEngine):
    """Remembers what glance and front were given, by the image's serial number."""

    def __init__(self):
        super().__init__()
        self.given = {"glance": [], "front": []}

    def glance(self, images):
        self.given["glance"] += [image.tobytes() for image in images]
        return super().glance(images)

    def front(self, images):
        self.given["front"] += [image.tobytes() for image in images]
        return super().front(images)


@pytest.fixture
def folder(tmp_path):
    """JPEGs of 48 x 40 pixels, of which the planted networks take 8 x 8 and the glance half of that."""
    (tmp_path / "images").mkdir()
    for number in range(IMAGES):
        pixels = np.zeros((40, 48, 3), np.uint8)
        pixels[..., 0] = 255 * (number in BAD)
        pixels[20:, 24:, 1] = 8 * number  # the planted networks look at the corner only
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number:02}.jpg", quality=95)
    return tmp_path / "images"


@pytest.fixture
def decoded(monkeypatch):
    """Counts images that are decoded small and whole."""
    counts, decode = Counter(), guarded_decoding.GuardedDecoder.decode

    def counting(self, *given, **options):
        found = decode(self, *given, **options)
        counts[len(found[0])] += 1
        return found

    monkeypatch.setattr(guarded_decoding.GuardedDecoder, "decode", counting)
    return counts


def moderator(engine, scheme="glance", *, threads=2, **parameters):
    bundle = planted_bundle()
    made = make_scheme(scheme, bundle.config.pool_sizes, **parameters)
    return Moderator(bundle, engine, made, seed=7, reading_threads=threads)


def seen(verdicts):
    return [(one.sha256, one.status, one.score, one.decided_by, one.reason) for one in verdicts]


def test_only_what_is_handed_on_is_decoded_whole(folder, decoded):
    engine = Watching()
    verdicts = list(moderator(engine).moderate(str(folder)))
    assert [one.position for one in verdicts if one.status == "flagged"] == list(BAD)
    assert decoded == {4: IMAGES, 8: len(BAD)}
    assert engine.rows["glance"] == IMAGES and engine.rows["front"] == len(BAD)


@pytest.mark.parametrize("scheme", ["individual", "cascade", "dorfman"])
def test_schemes_without_a_glance_decode_once_and_whole(folder, decoded, scheme):
    list(moderator(PlantedEngine(), scheme).moderate(str(folder)))
    assert decoded == {8: IMAGES}


def test_other_formats_are_decoded_once(tmp_path, decoded):
    write_images(tmp_path / "images", np.arange(IMAGES) % 8 == 0)
    list(moderator(PlantedEngine()).moderate(str(tmp_path / "images")))
    assert decoded == {8: IMAGES}


def sources(folder):
    files = sorted(folder.iterdir())
    with tarfile.open(folder.parent / "images.tar", "w") as archive:
        for file in files:
            archive.add(file, file.name)
    yield lambda one: one.moderate(str(folder))
    yield lambda one: one.moderate(file.read_bytes() for file in files)
    yield lambda one: one.moderate(str(folder.parent / "images.tar"))
    yield lambda one: [one.judge(file) for file in files]
    yield lambda one: one.moderate([io.BytesIO(file.read_bytes()) for file in files])
    yield lambda one: one.moderate(str(folder), longest_wait=0.0)


@pytest.mark.parametrize("room", [True, False])
def test_verdicts_and_pixels_do_not_depend_on_the_way_images_come(folder, room, monkeypatch):
    if not room:
        monkeypatch.setattr(views._KeptBytes, "keep", lambda content: None)
    engine = Watching()
    expected, given = seen(moderator(engine, threads=1).moderate(str(folder))), engine.given
    assert len(given["glance"]) == len(set(given["glance"]))
    for chunk in (3, 100):
        for way in sources(folder):
            engine = Watching()
            assert seen(way(moderator(engine, chunk=chunk))) == expected
            assert {name: sorted(some) for name, some in engine.given.items()} == {
                name: sorted(some) for name, some in given.items()
            }


def plans_that_hand_on(share):
    look = COST.glance / (COST.front + COST.back + COST.final)
    cost = Estimate(look + share, look + share, look + share)
    return [replace(plan, cost=cost) if plan.scheme == "glance" else plan for plan in planted_plans()]


@pytest.mark.parametrize(("share", "first"), [(0.1, 4), (0.3, 8)])
def test_plans_that_hand_on_many_images_decode_once_and_whole(folder, decoded, share, first):
    """Decoding small saves a fifth of decoding whole, which handing on then costs."""
    plans = plans_that_hand_on(share)
    one = Moderator(planted_bundle(), PlantedEngine(), plans, prevalence=0.01, seed=7)
    verdicts = list(one.moderate(str(folder)))
    assert one.totals.meter.runs["glance"] > 0
    assert [one.position for one in verdicts if one.status == "flagged"] == list(BAD)
    assert decoded[first] == IMAGES and decoded[12 - first] == (len(BAD) if first == 4 else 0)


def test_a_glance_sees_the_same_of_images_that_were_read_whole_for_another_plan(folder):
    engine, by_plans = Watching(), Watching()
    list(moderator(engine).moderate(str(folder)))
    one = Moderator(planted_bundle(), by_plans, plans_that_hand_on(0.1), prevalence=0.03, seed=7)
    files = sorted(folder.iterdir())
    whole = [one._chunk_judge.prepare(FileItem(str(file)), None, small=False) for file in files]
    assert {len(image.pixels) for image in whole} == {8}
    one.judge_chunk(whole, one.new_run())
    assert by_plans.given["glance"] == engine.given["glance"]


class Deleting(Watching):
    """Files go while the glance looks."""

    def __init__(self, *files):
        super().__init__()
        self.files = files

    def glance(self, images):
        for file in self.files:
            file.unlink(missing_ok=True)
        return super().glance(images)


def test_an_image_that_is_lost_between_stages_is_an_error_and_changes_no_other_verdict(folder, monkeypatch):
    monkeypatch.setattr(views._KeptBytes, "keep", lambda content: None)
    lost = folder / f"{BAD[0]:02}.jpg"
    expected = {one.path: one for one in moderator(Watching()).moderate(str(folder))}
    running = moderator(Deleting(lost))
    found = {one.path: one for one in running.moderate(str(folder))}
    assert found[str(lost)].status == "error"
    assert found[str(lost)].reason == "the file does not exist (any more)"
    assert found[str(lost)].sha256 == expected[str(lost)].sha256
    del found[str(lost)], expected[str(lost)]
    assert found == expected
    assert running.totals.meter.images == IMAGES - 1 and running.totals.errors == 1


def test_a_lost_image_that_was_cleared_by_then_is_not_missed(folder, monkeypatch):
    monkeypatch.setattr(views._KeptBytes, "keep", lambda content: None)
    clear = folder / "00.jpg"
    found = list(moderator(Deleting(clear)).moderate(str(folder)))
    assert not clear.exists() and [one.status for one in found].count("error") == 0


def test_reading_again_is_timed_as_reading(folder):
    running = moderator(Watching())
    list(running.moderate(str(folder)))
    assert set(running.totals.meter.seconds) == {"reading", "glance", "front", "retests"}
