from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from planted import planted_moderator, planted_pixels

from poolsieve.moderation.flagged_images import contact_sheet

NAMES = [
    "plain.jpg",
    "Grüße.jpg",
    "中文.jpg",
    "a\nb.jpg",
    "\u202egpj.exe",
    "\udcff.jpg",
    "x" * 300,
    "",
    "תמונה.png",
]


@pytest.fixture(scope="module")
def flagged():
    return next(iter(planted_moderator("individual").moderate(planted_pixels([True]))))


def captions(flagged, names):
    """The part of the sheet below the pictures of one row."""
    verdicts = [replace(flagged, path=f"photos/{name}", position=k) for k, name in enumerate(names)]
    pictures = {k: Image.new("RGB", (160, 160), "white") for k in range(len(names))}
    return np.asarray(contact_sheet(verdicts, pictures).convert("L"))[8 + 160 :]


def test_any_name_has_its_caption(flagged):
    sheet = captions(flagged, NAMES)
    for k in range(len(NAMES)):
        assert (sheet[:, 8 + 168 * k : 168 + 168 * k] < 200).any()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.isascii()])
def test_letters_beyond_ascii_are_not_question_marks(flagged, name):
    masked = name.encode("ascii", "replace").decode()
    assert not np.array_equal(captions(flagged, [name]), captions(flagged, [masked]))


def test_a_line_break_does_not_spill_over_the_next_row(flagged):
    sheet = captions(flagged, ["a\nb\nc\nd.jpg"])
    assert (sheet[14 + 14 :] == 255).all()  # below the line of the name there is nothing
