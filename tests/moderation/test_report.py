import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote_to_bytes

import numpy as np
import pytest
from PIL import Image
from planted import (
    Doubting,
    PlantedEngine,
    moderator_by,
    planted_bundle,
    planted_moderator,
    planted_pixels,
    write_images,
)

from poolsieve.moderation import Moderator
from poolsieve.moderation.report import RunDescription, grounds, link_to, mates_of, moderation_page
from poolsieve.schemes import DecodedPools, DisjointPools, Glance, Head, Scheme, Test


class Page(HTMLParser):
    """Collects text and tags, and complains of tags that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


RUN = RunDescription("my-bundle", "ab" * 32, "<planted>", "adaptive(chunk=100)", 7)


def judged(scheme="adaptive", **parameters):
    truth = np.zeros(100, dtype=bool)
    truth[[4, 77]] = True
    moderator = planted_moderator(scheme, **parameters)
    return moderator, list(moderator.moderate(planted_pixels(truth)))


@pytest.fixture(scope="module")
def adaptive():
    return judged()


def report(moderator, verdicts, names=None, thumbnails=None, errors=(), **options):
    shown = [verdict for verdict in verdicts if verdict.flagged]
    return moderation_page(RUN, moderator.totals, shown, thumbnails or {}, names or {}, errors, **options)


def test_the_page_tells_findings_grounds_and_cost(adaptive):
    moderator, verdicts = adaptive
    names = {verdict.position: f"photos/{verdict.position:04d}.png" for verdict in verdicts}
    thumbnails = {4: Image.new("RGB", (160, 160), "red")}
    made = Page(report(moderator, verdicts, names, thumbnails))
    assert "100 images 2 flagged 98 clear 0 could not be read" in made.text
    assert f"{100 * moderator.totals.meter.share:.1f}% of the cost" in made.text
    assert f"{moderator.totals.meter.runs['pools']:,} runs" in made.text
    assert made.text.count("was read as holding 1 bad") == 4
    mate = next(k for k in verdicts[4].pools[0].members if k != 4)
    assert f"{mate:04d}.png" in made.text
    assert f"tested on its own: {verdicts[4].score:.3g}; threshold 0.5" in made.text
    assert "in photos" not in made.text  # arrays have no folder
    assert sum(tag == "img" for tag, _ in made.tags) == 1
    assert "cannot be read again" in made.text  # 77 has no picture
    assert "Not judged" not in made.text


def test_parts_of_the_bar_add_up_to_the_cost(adaptive):
    moderator, verdicts = adaptive
    made = Page(report(moderator, verdicts))
    styles = [values["style"] for tag, values in made.tags if tag == "span" and "title" in values]
    widths = [float(style.split("width:")[1].split("%")[0]) for style in styles]
    assert sum(widths) == pytest.approx(100 * moderator.totals.meter.share, abs=0.03)


@pytest.mark.parametrize(
    ("scheme", "titles"),
    [
        ("adaptive", ["front", "cheap head", "pools", "tests of single images"]),
        ("glance", ["glance", "front", "tests of single images"]),
    ],
)
def test_the_bar_lists_parts_in_the_order_in_which_they_run(scheme, titles):
    moderator, verdicts = judged(scheme)
    made = Page(report(moderator, verdicts))
    shown = [values["title"] for tag, values in made.tags if tag == "span" and "title" in values]
    assert [[title for title in titles if title in one] for one in shown[: len(titles)]] == [
        [one] for one in titles
    ]


def test_names_of_strangers_are_text_and_the_page_fetches_nothing(adaptive):
    moderator, verdicts = adaptive
    hostile = "<script>alert(1)</script>\udcff.png"
    names = {verdict.position: hostile for verdict in verdicts}
    text = report(moderator, verdicts, names)
    assert "<script" not in text
    assert "<planted>" not in text
    made = Page(text)
    assert {tag for tag, _ in made.tags}.isdisjoint({"script", "link", "iframe", "a"})
    assert any("default-src 'none'" in values.get("content", "") for _, values in made.tags)
    text.encode()  # nothing is left that is no proper text


def test_images_decided_by_pools_are_said_to_be_so():
    moderator, verdicts = judged("oneshot", decoder="bp")
    assert "decided by its pools, not tested on its own" in Page(report(moderator, verdicts)).text


def test_errors_are_listed_up_to_a_limit():
    moderator = planted_moderator()
    verdicts = list(moderator.moderate([f"none-{k}.png" for k in range(130)]))
    text = Page(report(moderator, verdicts, errors=verdicts)).text
    assert "130 images could not be read" in text
    assert "The first 100 are listed" in text
    assert "none-99.png" in text
    assert "none-100.png" not in text
    assert "Flagged images None." in text


def test_mates_are_all_members_of_the_shown_pools(adaptive):
    _, verdicts = adaptive
    expected = {k for pool in verdicts[77].pools for k in pool.members}
    assert mates_of([verdicts[77]]) == expected


def test_every_card_links_to_its_file_and_names_its_folder(tmp_path):
    photos = tmp_path / "my photos & more"
    write_images(photos, [True] * 3)
    odd = [b"\xff.png", "ü #1%20?.png".encode(), b"javascript:alert(1).png"]
    for file, name in zip(sorted(photos.iterdir()), odd, strict=True):
        file.rename(photos / os.fsdecode(name))
    moderator = planted_moderator("individual")
    verdicts = list(moderator.moderate(photos))
    made = Page(report(moderator, verdicts, folder=tmp_path / "reports" / "today"))
    links = [values["href"] for tag, values in made.tags if tag == "a"]
    assert len(links) == 3
    assert all(re.fullmatch(r"\.\./\.\./[A-Za-z0-9_.~%/-]+", link) for link in links)
    targets = {os.fsdecode(unquote_to_bytes(link)) for link in links}
    assert targets == {f"../../{photos.name}/{os.fsdecode(name)}" for name in odd}
    assert made.text.count(f"in {photos}") == 3
    assert sum(tag == "bdi" for tag, _ in made.tags) == 6


def test_only_image_files_are_linked_to(tmp_path):
    (tmp_path / "page.html").write_text("an image and a page at once")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "a.png").write_bytes(b"")
    assert link_to(str(tmp_path / "a.png"), tmp_path) == "a.png"
    for name in ("page.html", "folder.png", "gone.png", "photos.zip/member.png", "nul\0.png", "array[3]"):
        assert link_to(str(tmp_path / name), tmp_path) is None


def test_lines_are_not_turned_around_by_names(adaptive):
    moderator, verdicts = adaptive
    text = report(moderator, [replace(verdicts[4], path="evil\u202egpj.exe")])
    assert "\u202e" not in text
    assert "<bdi>evil\\u202egpj.exe</bdi>" in text


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("individual", r"tested on its own: 1; threshold 0\.5"),
        ("glance", r"looked at small first: 0\.\d+; tested on its own: 1; threshold 0\.5"),
        ("early_exit", r"first look by the cheap head, then at it small: 0\.\d+; tested on its own: 1; .*"),
        ("cascade", r"first look by the cheap head: 0\.\d+; tested on its own: 1; threshold 0\.5"),
        ("dorfman", r"after its pool: [0-9.]+; tested on its own: 1; threshold 0\.5"),
        ("adaptive", r"first look by the .*head: 0\.\d+; after its 2 pools: [0-9.]+; tested on its own: 1.*"),
        ("oneshot", r"after its 4 pools: 1; decided by its pools, not tested on its own"),
    ],
)  # fmt: skip
def test_grounds_are_told_in_the_words_of_the_scheme(way, words):
    moderator = moderator_by(way)
    verdicts = list(moderator.moderate(planted_pixels(np.arange(100) == 4)))
    assert re.fullmatch(words, grounds(verdicts[4]))
    text = Page(report(moderator, verdicts)).text
    assert "no pools" not in text
    assert ("was read as holding" in text) == ("pool" in words)
    assert ("behind a pool" in text) == ("pool" in words)


def test_without_the_head_the_prior_is_no_look():
    moderator = planted_moderator("adaptive", use_head=False, engine=PlantedEngine())
    verdicts = list(moderator.moderate(planted_pixels(np.arange(100) == 4)))
    assert grounds(verdicts[4]).startswith("after its 2 pools")


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ((Head(), Test()), r"first look by the cheap head: 0\.\d+; tested on its own: 1; threshold 0\.5"),
        (
            (Glance(), Head(), Test()),
            r"looked at small first, then by the cheap head: 0\.\d+; tested on its own: 1; threshold 0\.5",
        ),
        ((Glance(), Head(clear_below=0), Test()), r"looked at small first: 0\.\d+; tested on its own: 1; .*"),
        ((DisjointPools(), Test()), r"after its pool: [0-9.]+; tested on its own: 1; .*"),
        (
            (DisjointPools(), Head(), Test()),
            r"after its pool: [0-9.]+; a look by the cheap head: [0-9.]+; tested on its own: 1; .*",
        ),
        (
            (Head(), DisjointPools(), DisjointPools(pool_size=4), Test()),
            r"first look by the cheap head; after its 2 pools: [0-9.]+; tested on its own: 1; .*",
        ),
        (
            (Head(clear_below=0), DecodedPools(decoder="classo:penalty=0.3,threshold=0.2")),
            r"first look by the cheap head; after its 4 pools: [0-9.]+; decided by its pools, not .*",
        ),
    ],
    ids=lambda value: "-".join(stage.name for stage in value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_grounds_of_lists_of_stages_are_told_in_the_words_of_each(stages, words):
    moderator = Moderator(planted_bundle(), Doubting(), Scheme(stages, chunk=104), seed=7, reading_threads=2)
    verdicts = list(moderator.moderate(planted_pixels(np.arange(104) == 5)))
    assert re.fullmatch(words, grounds(verdicts[5]))


def test_an_image_that_the_first_look_decided_about_had_no_other():
    """The head, which is asked next, adds nothing to it."""
    moderator = Moderator(planted_bundle(), Doubting(), Scheme((Glance(), Head(), Test())), seed=7)
    verdicts = list(moderator.moderate(planted_pixels(np.arange(100) < 0)))
    assert verdicts[1].decided_by == "glance"
    words = r"looked at small first: [0-9.e-]+; decided by the look at it small, not tested on its own"
    assert re.fullmatch(words, grounds(verdicts[1]))
