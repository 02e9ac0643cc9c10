from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from planted import planted_moderator, planted_pixels

from poolsieve.html import data_url, escaped, page
from poolsieve.moderation_report import RunDescription, mates_of, moderation_page


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


def report(moderator, verdicts, names=None, thumbnails=None, errors=()):
    shown = [verdict for verdict in verdicts if verdict.flagged]
    return moderation_page(RUN, moderator.totals, shown, thumbnails or {}, names or {}, errors)


def test_the_page_tells_findings_grounds_and_cost(adaptive):
    moderator, verdicts = adaptive
    names = {verdict.position: f"photos/{verdict.position:04d}.png" for verdict in verdicts}
    thumbnails = {4: Image.new("RGB", (160, 160), "red")}
    made = Page(report(moderator, verdicts, names, thumbnails))
    assert "100 images 2 flagged 98 clear 0 could not be read" in made.text
    assert f"{100 * moderator.totals.meter.share:.1f}% of the cost" in made.text
    assert f"{moderator.totals.meter.pools:,} runs" in made.text
    assert made.text.count("was read as holding 1 bad") == 4
    mate = next(k for k in verdicts[4].pools[0].members if k != 4)
    assert f"{mate:04d}.png" in made.text
    assert f"tested on its own: {verdicts[4].score:.4f}" in made.text
    assert sum(tag == "img" for tag, _ in made.tags) == 1
    assert "cannot be read again" in made.text  # 77 has no picture
    assert "Not judged" not in made.text


def test_parts_of_the_bar_add_up_to_the_cost(adaptive):
    moderator, verdicts = adaptive
    made = Page(report(moderator, verdicts))
    styles = [values["style"] for tag, values in made.tags if tag == "span" and "title" in values]
    widths = [float(style.split("width:")[1].split("%")[0]) for style in styles]
    assert sum(widths) == pytest.approx(100 * moderator.totals.meter.share, abs=0.03)


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
    assert "decided by pools, not tested on its own" in Page(report(moderator, verdicts)).text


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


def test_a_picture_and_odd_text_can_stand_in_a_page():
    url = data_url(Image.new("RGB", (4, 4)))
    assert url.startswith("data:image/jpeg;base64,/9j/")
    assert escaped('a"<b>&\udcff') == "a&quot;&lt;b&gt;&amp;\\xff"
    assert Page(page("a < b", "<p>body</p>")).text.endswith("body")
