"""The page of a chunk's pools in a browser."""

import numpy as np
import pytest
from PIL import Image

from poolsieve.moderation.pools_page import pools_page
from poolsieve.schemes import Chunk, CostMeter, LikelihoodModel, make_scheme
from poolsieve.schemes.planted import COST, PlantedNetworks, planted_calibration, planted_pixels

BAD = (17, 60)


@pytest.fixture(scope="module")
def decision():
    pixels = planted_pixels(np.isin(np.arange(100), BAD))
    chunk = Chunk(
        PlantedNetworks(),
        LikelihoodModel(planted_calibration((4, 8))),
        CostMeter(COST),
        pixels,
        np.arange(100),
        100,
        gated=True,
    )
    return make_scheme("oneshot", (4, 8), prevalence=0.02).decide(chunk, np.random.default_rng(0))


def page_of(decision, names=None):
    names = names or [f"{number}.jpg" for number in range(100)]
    return pools_page(decision, names, [Image.new("RGB", (8, 8))] * 100, "Pools")


def test_choosing_an_image_lights_up_its_pools(decision, browser, tmp_path):
    (tmp_path / "pools.html").write_text(page_of(decision), encoding="utf-8")
    tab = browser.new_page()
    said = []
    tab.on("console", lambda message: said.append(message.text))
    tab.goto((tmp_path / "pools.html").as_uri())

    def lit(kind):
        script = f"""[...document.querySelectorAll('label[for^={kind}]')]
            .filter(label => getComputedStyle(label).outlineStyle == 'solid').map(label => label.htmlFor)"""
        return {int(name[1:]) for name in tab.evaluate(script)}

    assert lit("p") == lit("i") == set()
    tab.click("label[for=i17]")
    assert lit("p") == set(decision.pooling.pools_of[17].tolist())
    assert lit("i") == {17}
    assert "17.jpg: flagged" in tab.locator(".told:visible").inner_text()
    tab.click("label[for=p3]")
    assert lit("i") == set(decision.pooling.pools[3].tolist())
    assert said == []
    tab.close()
