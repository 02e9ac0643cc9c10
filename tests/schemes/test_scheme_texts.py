"""What was done is told from a scheme's text, which is all that a verdict holds of it."""

import pytest
from planted import LIMITS, TWO_SIZES

from poolsieve.schemes import (
    DecodedPools,
    DisjointPools,
    Glance,
    Head,
    Pools,
    Scheme,
    Test,
    list_schemes,
    make_scheme,
)
from poolsieve.schemes.scheme_texts import decider, looks_at, stages_of

SCHEMES = [
    *(make_scheme(name, (4, 8)) for name in list_schemes()),
    make_scheme("adaptive", (4, 8), **LIMITS),
    make_scheme("adaptive", (4, 8), **TWO_SIZES),
    make_scheme("adaptive", (8,), use_head=False),
    make_scheme("oneshot", (8,), decoder="classo:penalty=0.3,threshold=0.2"),
    Scheme((Head(), Test())),
    Scheme((Test(threshold=0.25, recompute=True),), chunk=7, prevalence=1e-5),
    Scheme((Glance(clear_below=3e-5), DisjointPools(), Pools(pool_size=4), Test())),
    Scheme((Head(clear_below=0), DecodedPools(decoder="bp"))),
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_stages_are_read_from_the_text_of_a_scheme(scheme):
    assert stages_of(str(scheme)) == scheme.stages


@pytest.mark.parametrize(
    "text",
    ["", "None", "individual", "stranger(chunk=100, prevalence=0.01)", "odd(a=1) → test(b=2) (chunk=1)"],
)
def test_what_is_not_known_here_has_no_stages(text):
    assert stages_of(text) == looks_at(text, "individual").first == ()
    assert decider(text, "odd") == "odd"


def test_a_look_that_nobody_asked_for_was_not_taken():
    """Without bounds it waits until posteriors are needed."""
    for stages, taken in (
        ((Glance(), Head(clear_below=0), Test()), ["glance"]),
        ((Head(clear_below=0), Glance(), Test()), ["head", "glance"]),
        ((Head(clear_below=0), DisjointPools(), Test()), ["head"]),
    ):
        assert [look.name for look in looks_at(str(Scheme(stages)), "individual").first] == taken
