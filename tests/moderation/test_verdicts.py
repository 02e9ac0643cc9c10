from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import planted_moderator, planted_pixels

HOSTILE = "a\x1b[2Jb\n\u202egpj.\udcff.jpg"


@pytest.fixture(scope="module")
def judged():
    return list(planted_moderator("adaptive").moderate(planted_pixels(np.arange(100) == 4)))


@given(st.text(st.characters(exclude_categories=())))
def test_grounds_are_safe_to_print_whatever_images_are_called(judged, name):
    names = {verdict.position: name for verdict in judged}
    lines = replace(judged[4], path=name).explain(names)
    lines += replace(judged[4], path=name, status="error", reason=name).explain({})
    for line in lines:
        assert line.isprintable()
        line.encode()


def test_pool_mates_of_strange_names_are_told_by_escapes(judged):
    lines = judged[4].explain({verdict.position: HOSTILE for verdict in judged})
    assert "    with a\\x1b[2Jb\\n\\u202egpj.\\xff.jpg" in lines
