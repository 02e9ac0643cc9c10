"""What reviewers are told of every stage."""

import pytest

from poolsieve.review.opinions import opinions
from poolsieve.schemes import DisjointPools, Glance, Head, Scheme, Test, make_scheme

POOLS = {"pools": [{"size": 8, "count": 1}], "pool_score": 0.2}
IN_POOLS = ["in 1 pool, read as holding 1 bad of 8", "score from its pools .2"]


@pytest.mark.parametrize(
    ("scheme", "told", "lines"),
    [
        (make_scheme("cascade", (8,)), {}, ["first look .63"]),
        (Scheme((Head(), Test())), {}, ["first look .63"]),
        (Scheme((Glance(), Head(), Test())), {}, ["first looks .63"]),
        (make_scheme("adaptive", (8,)), POOLS, ["first look .63", *IN_POOLS]),
        (make_scheme("dorfman", (8,)), POOLS, IN_POOLS),  # .63 was expected of every image
        (Scheme((DisjointPools(), Head(), Test())), POOLS, [*IN_POOLS, "look after its pools .63"]),
        ("somebodys_own(a=1) → test() (chunk=8, prevalence=0.01)", {}, ["first look .63"]),
    ],
    ids=str,
)
def test_a_prior_is_a_look_where_somebody_looked(scheme, told, lines):
    grounds = {"prior": 0.63, "scheme": str(scheme), **told}
    assert opinions(grounds, "flagged", 0.9, "individual") == [*lines, "tested alone .9"]


def test_who_decided_is_named_by_its_stage():
    scheme = str(Scheme((Glance(), Head(), Test())))
    told = opinions({"prior": 0.001, "scheme": scheme}, "clear", 0.001, "glance")
    assert told == ["first look .001", "clear by the look at it small with score .001"]
    told = opinions({"prior": 0.001, "scheme": scheme}, "clear", 0.001, "head")
    assert told == ["first looks .001", "clear by the cheap head with score .001"]
    assert opinions({}, "clear", 0.1, "somebodys_own") == ["clear by somebodys_own with score .1"]
