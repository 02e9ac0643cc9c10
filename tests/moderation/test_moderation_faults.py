"""What is wrong with some images changes nothing for the others, whatever decides about them."""

import io
import struct
import tarfile
import zipfile
import zlib

import hostile
import numpy as np
import pytest
from PIL import Image
from planted import SIDE, WAYS, moderator_by, planted_pixels, write_images

from poolsieve.images import sources

IMAGES = 130
BAD = (4, 17, 33, 58, 61, 77, 111, 129)
HIT = (4, 50)
"""A bad and a clear image of the first chunk, which something happens to."""
TRUTH = np.isin(np.arange(IMAGES), BAD)


def plain(bad):
    return Image.new("RGB", (SIDE, SIDE), (255, 1, 0) if bad else (0, 1, 0))


def encoded(image, **options):
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def huge(bad):
    data = bytearray(encoded(plain(bad), format="png"))
    header = b"IHDR" + struct.pack(">2I", 50_000, 50_000) + bytes(data[24:29])
    data[12:33] = header + struct.pack(">I", zlib.crc32(header))
    return bytes(data)


def sixteen_bit(bad):
    """Of the clear image all values are above 255, so that clipping would make it bright."""
    return encoded(Image.fromarray(np.full((SIDE, SIDE), 65535 if bad else 20000, np.uint16)), format="png")


def animated(bad):
    """The second frame says the opposite."""
    options = {"save_all": True, "append_images": [plain(not bad)], "duration": 100}
    return encoded(plain(bad), format="gif", **options)


UNREADABLE = {
    "truncated": (lambda bad: encoded(plain(bad), format="png")[:-30], "damaged or truncated"),
    "zero bytes": (lambda bad: b"", "the file is empty"),
    "no image": (lambda bad: b"a text that is named like a picture", "not a JPEG"),
    "50,000 x 50,000": (huge, "pixels"),
    "palette without colours": (lambda bad: hostile.palette_png_without_palette(), "AssertionError"),
    "1,000 scans": (lambda bad: hostile.jpeg_of_many_scans(1000, 64), "scans, more than the limit"),
    "2 GB": (lambda bad: hostile.huge_webp(), "takes more than 700,000,000 bytes to decode"),
    "vanished": (None, "the file does not exist (any more)"),
}
ODD = {
    "wrong ending": lambda bad: encoded(plain(bad), format="bmp"),
    "animated": animated,
    "CMYK": lambda bad: encoded(plain(bad).convert("CMYK"), format="jpeg", quality=95),
    "16 bits": sixteen_bit,
    "hidden default image": lambda bad: hostile.apng(plain(not bad), [plain(bad), plain(not bad)]),
}
ODD_ONES = (4, 50, 17, 51, 33, 52, 58, 53, 61, 54)
"""A bad and a clear image for each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "photos"
    write_images(folder, TRUTH)
    return folder


@pytest.fixture(scope="module")
def sound(folder):
    """Verdicts where nothing is wrong, by way."""
    return {way: list(moderator_by(way).moderate(folder)) for way in WAYS}


@pytest.fixture
def files(folder):
    """All files; what is done to them is undone."""
    files = [folder / f"{number:04d}.png" for number in range(IMAGES)]
    before = {number: files[number].read_bytes() for number in ODD_ONES}
    yield files
    for number, content in before.items():
        files[number].write_bytes(content)


def assert_others_are_as_before(found, sound, way, hit):
    """All others have the same status, and those whom the fault cannot reach the same record."""
    assert len(found) == IMAGES
    others = [k for k in range(IMAGES) if k not in hit]
    assert [found[k].status for k in others] == [sound[k].status for k in others]
    assert [found[k].flagged for k in others] == TRUTH[others].tolist()
    if way == "auto":  # which goes on by all images that it has seen
        return
    pooled = any(verdict.pools for verdict in sound)
    far = [k for k in others if not pooled or sound[k].chunk > 0]
    assert len(far) > 20
    assert [found[k] for k in far] == [sound[k] for k in far]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", UNREADABLE)
def test_an_unreadable_image_has_its_reason_and_changes_no_other_verdict(
    folder, sound, files, monkeypatch, fault, way
):
    make, reason = UNREADABLE[fault]
    if make is None:
        real = sources.read_limited

        def vanishing(path, max_bytes):
            for number in HIT:
                if path == str(files[number]):
                    files[number].unlink()
            return real(path, max_bytes)

        monkeypatch.setattr(sources, "read_limited", vanishing)
    else:
        for number in HIT:
            files[number].write_bytes(make(TRUTH[number]))
    moderator = moderator_by(way)
    found = list(moderator.moderate(folder))
    for number in HIT:
        assert (found[number].status, found[number].score, found[number].pools) == ("error", None, ())
        assert reason in found[number].reason
        assert found[number].path == sound[way][number].path
    assert moderator.totals.errors == 2
    assert_others_are_as_before(found, sound[way], way, HIT)
    # A place in the pools stays empty, so whoever shared no pool with a lost image has the very same record.
    if way in ("dorfman", "oneshot", "adaptive"):
        reached = {m for number in HIT for pool in sound[way][number].pools for m in pool.members}
        apart = [k for k in range(100) if k not in reached]
        assert len(apart) > 40
        assert [seen(found[k]) for k in apart] == [seen(sound[way][k]) for k in apart]


def seen(verdict):
    """What was read of an image; pools are numbered anew where one is left empty."""
    return verdict.status, [(pool.members, pool.count, pool.probabilities) for pool in verdict.pools]


@pytest.mark.parametrize("way", WAYS)
def test_odd_images_are_judged_like_plain_ones(folder, sound, files, way):
    kinds = [kind for kind in ODD for _ in range(2)]
    for kind, number in zip(kinds, ODD_ONES, strict=True):
        files[number].write_bytes(ODD[kind](TRUTH[number]))
    found = list(moderator_by(way).moderate(folder))
    judged = {(kind, number): found[number].flagged for kind, number in zip(kinds, ODD_ONES, strict=True)}
    assert judged == {(kind, number): bool(TRUTH[number]) for kind, number in judged}
    assert_others_are_as_before(found, sound[way], way, ODD_ONES)


@pytest.mark.parametrize("way", WAYS)
def test_a_whole_chunk_of_damaged_images_is_passed_over(folder, files, sound, way):
    size = moderator_by(way).scheme.chunk_size
    found = list(moderator_by(way).moderate([folder / "none.png"] * size + files))
    assert [verdict.status for verdict in found[:size]] == ["error"] * size
    assert [verdict.flagged for verdict in found[size:]] == TRUTH.tolist()
    found = list(moderator_by(way).moderate(files[:size] + [folder / "none.png"] * size + files[size:]))
    assert found[:size] == sound[way][:size]
    assert [verdict.status for verdict in found[size : 2 * size]] == ["error"] * size
    assert [verdict.flagged for verdict in found[2 * size :]] == TRUTH[size:].tolist()


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_was_stopped_anywhere_ends_with_the_same_records(sound, folder, way):
    expected = sound[way]
    begun = moderator_by(way)
    done, states = [], []
    for verdicts in begun.moderate_chunks(folder):
        done.append(verdicts)
        states.append(begun.totals.state())
    assert len(done) == 2
    for chunks in (1, 2):
        kept = [verdict for verdicts in done[:chunks] for verdict in verdicts]
        resumed = moderator_by(way)
        names = (verdict.path for verdict in kept)
        rest = list(resumed.moderate_chunks(folder, done=names, state=states[chunks - 1]))
        assert len(rest) == 2 - chunks
        assert kept + [verdict for verdicts in rest for verdict in verdicts] == expected
        assert resumed.totals.images == IMAGES
        assert resumed.totals.meter.share == pytest.approx(begun.totals.meter.share)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", [False, True])
def test_few_images_a_short_last_chunk_and_nothing_but_bad_or_clear_ones(way, bad):
    for count in (0, 1, 9, 110):
        moderator = moderator_by(way)
        found = list(moderator.moderate(planted_pixels([bad] * count)))
        assert [verdict.flagged for verdict in found] == [bad] * count
        assert moderator.totals.images == count
        assert moderator.totals.meter.share <= 1.4 or count == 9  # pools that are read in vain


@pytest.fixture(scope="module")
def same_images(folder, tmp_path_factory):
    """The same images as every kind of source that a path can name."""
    place = tmp_path_factory.mktemp("sources")
    files = sorted(folder.iterdir())
    (place / "list.csv").write_text("number,picture\n" + "".join(f"1,{file}\n" for file in files))
    (place / "list.jsonl").write_text("".join(f'{{"picture": "{file}"}}\n' for file in files))
    with zipfile.ZipFile(place / "images.zip", "w") as archive:
        for file in files:
            archive.write(file, file.name)
    for ending in ("tar", "tar.gz"):
        with tarfile.open(place / f"images.{ending}", f"w:{ending[4:]}") as archive:
            for file in files:
                archive.add(file, file.name)
    return place


@pytest.mark.parametrize(
    "kind", ["files", "csv", "jsonl", "stdin", "zip", "tar", "tar.gz", "arrays", "array"]
)
def test_every_kind_of_source_gives_the_same_verdicts_in_its_order(
    same_images, files, sound, kind, monkeypatch
):
    source = {"files": files, "arrays": list(planted_pixels(TRUTH)), "array": planted_pixels(TRUTH)}.get(kind)
    if kind in ("csv", "jsonl"):
        source = same_images / f"list.{kind}"
    elif kind == "stdin":
        source = "-"
        lines = io.TextIOWrapper(io.BytesIO("".join(f"{file}\n" for file in files).encode()))
        monkeypatch.setattr("sys.stdin", lines)
    elif source is None:
        source = same_images / f"images.{kind}"
    found = list(moderator_by("adaptive").moderate(source, column="picture"))
    expected = sound["adaptive"]
    assert [(v.position, v.status, v.score, v.pools) for v in found] == [
        (v.position, v.status, v.score, v.pools) for v in expected
    ]
    if not kind.startswith("array"):
        assert [v.path.rsplit("/", 1)[-1] for v in found] == [file.name for file in files]
        assert [v.sha256 for v in found] == [v.sha256 for v in expected]


@pytest.mark.parametrize("way", WAYS)
def test_one_bad_frame_flags_an_animation_if_frames_are_looked_at(folder, files, way):
    number = 50
    files[number].write_bytes(hostile.apng(plain(True), [plain(False)] * 4 + [plain(True)] * 2))
    first = list(moderator_by(way).moderate(folder))
    assert first[number].status == "clear"
    moderator = moderator_by(way, frames=4)
    found = list(moderator.moderate(folder))
    assert (found[number].status, found[number].decided_by) == ("flagged", "individual")
    assert found[number].note == "flagged by frame 4 of 4 that were looked at"
    assert found[number].pools == first[number].pools
    assert found[:number] + found[number + 1 :] == first[:number] + first[number + 1 :]
    assert (moderator.totals.images, moderator.totals.flagged) == (IMAGES, len(BAD) + 1)


def test_frames_are_no_more_than_are_decoded():
    with pytest.raises(ValueError, match="frames=101, but it must lie between 1 and 100"):
        moderator_by("individual", frames=101)
