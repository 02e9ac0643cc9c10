"""The page of a chunk's pools shows the pools that were read, and trusts no name."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from shown_pools import BAD, page_of, pooled_decision

from poolsieve.moderation import pools_page


@pytest.fixture(scope="module")
def decision():
    return pooled_decision()


def test_it_shows_the_pools_and_readings_of_the_decision(decision):
    page = page_of(decision)
    assert np.flatnonzero(decision.flags).tolist() == list(BAD)
    shown = {
        (int(pool), int(image)): "some" in more
        for pool, image, more in re.findall(r'<rect class="p(\d+) i(\d+)( some)?"', page)
    }
    members = decision.pooling.pools
    assert set(shown) == {(pool, image) for pool, row in enumerate(members.tolist()) for image in row}
    read = decision.readings.counts[0] > 0
    assert all(some == read[pool] for (pool, _), some in shown.items())
    assert re.findall(r'class="i(\d+) bad"', page) == [str(image) for image in BAD]
    assert page.count('<rect class="column"') == len(BAD)


def test_names_are_text(decision):
    names = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202egpj.exe", "\udcff.jpg"]
    page = page_of(decision, names + ["x.jpg"] * 96)
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    page.encode()  # undecodable bytes of a name are shown as escapes


def test_what_cannot_be_shown_is_said(decision):
    with pytest.raises(ValueError, match="no pools to show"):
        page_of(replace(decision, pooling=None))
    with pytest.raises(ValueError, match="100 images were decided, but there are 1 names"):
        pools_page(decision, ["a.jpg"], [Image.new("RGB", (8, 8))], "Pools")
