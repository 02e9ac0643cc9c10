"""The page of a chunk's pools in a browser."""

import pytest
from shown_pools import page_of, pooled_decision


@pytest.fixture(scope="module")
def decision():
    return pooled_decision()


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
