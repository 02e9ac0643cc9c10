"""How well, dashboard and settings, without a browser."""

import re

import pytest
from review_site import Client, add_people, fill

from poolsieve.planning.plans import Plan
from poolsieve.review import review_app
from poolsieve.review.plan_offers import Offers
from poolsieve.statistics import Estimate


@pytest.fixture
def decided(store):
    """40 flags of which 10 with low scores are false, and 20 sampled clear images, all decided."""
    people = add_people(store)
    fill(store, flagged=40, clear=20)
    for number in range(1, 61):
        task = store.tasks.hold(people["lead"], number, 60)
        bad = task.status == "flagged" and task.score >= 0.61
        store.tasks.decide(people["lead"], [number], "reject" if bad else "approve")
    return store


def test_precision_sensitivity_and_the_promise_are_told(client, decided):
    text = client("reviewer").get("/how-well").text
    assert "75.0%" in text and "40 decided flags" in text and "20 sampled clear images, 0 of them bad" in text
    assert "not promised" in text
    for promise, word in ((0.9, "kept"), (1.0, "kept")):
        decided.settings.set("test", {"promises": {"firearms": {"sensitivity": promise}}})
        assert f">{word}</b>" in client("reviewer").get("/how-well").text


def test_a_promise_is_kept_or_broken_and_flags_that_wait_are_told(client, store):
    people = add_people(store)
    fill(store, flagged=40, clear=20)  # all clear images are looked at, so that what was missed is known
    for number in range(1, 61):
        task = store.tasks.hold(people["lead"], number, 60)
        bad = task.status == "flagged" or number > 50
        if number > 1:
            store.tasks.decide(people["lead"], [number], "reject" if bad else "approve")
    text = client("lead").get("/how-well").text
    assert "1 of 40 flags wait." in text and "precision looks too high" in text
    for promise, word in ((0.7, "kept"), (0.9, "broken")):
        store.settings.set("test", {"promises": {"firearms": {"sensitivity": promise, "threshold": 0.35}}})
        text = client("lead").get("/how-well").text
        assert f">{word}</b>" in text and "above a score of <b>0.35</b>" in text
        assert "for its own threshold" not in text
    store.settings.set("test", {"thresholds": {"firearms": 0.6}})
    assert "for its own threshold" in client("lead").get("/how-well").text


def test_a_threshold_is_applied_by_a_person_and_is_in_the_audit(client, decided):
    lead = client("lead")
    assert lead.submit("/how-well/threshold", policy="firearms", threshold="0.7").status_code == 200
    assert decided.settings.get("thresholds") == {"firearms": 0.7}
    entry = decided.audit.newest(1)[0]
    assert (entry.actor, entry.subject) == ("lead", "setting thresholds")
    for wrong in ("2", "-1", "many", "nan"):
        assert lead.submit("/how-well/threshold", policy="firearms", threshold=wrong).status_code == 400
    assert lead.submit("/how-well/threshold", policy="none", threshold="0.7").status_code == 404
    lead.submit("/how-well/threshold", policy="firearms", threshold="")
    assert decided.settings.get("thresholds") == {}


class Planner:
    """Has two plans to offer once it was asked to compare, beside the one in force."""

    def __init__(self):
        self.started = None

    def has(self, policy):
        return policy == "firearms"

    def being_compared(self, policy):
        return False

    def offers(self, policy, prevalence, *, start=False):
        self.started = prevalence if start else self.started
        if self.started is None:
            return None
        return Offers("ab" * 32, 0.5, [plan(0.8, 0.2), plan(0.9, 0.3), plan(0.97, 0.6)], (100, 200))


def plan(sensitivity, cost):
    sure = [Estimate(value, value, value) for value in (sensitivity, 0.98, cost, 0.0)]
    return Plan("glance", {"chunk": 64, "threshold": 0.4}, 0.5, *sure)


@pytest.mark.parametrize(("promised", "suggested"), [(0.95, 0.97), (0.9, 0.9)])
def test_a_plan_is_suggested_and_applied_by_a_person(decided, promised, suggested):
    """After a broken promise one that promises more, else one that promises as much for less."""
    decided.settings.set(
        "test",
        {
            "promises": {
                "firearms": {"sensitivity": promised, "cost": 0.5, "prevalence": 0.5, "plan": "glance (x)"}
            },
            "thresholds": {"firearms": 0.7},
        },
    )
    if promised == 0.95:  # all clear images are looked at, so that what was missed is known
        decided.users.add("eve", "long enough to sign in", "lead")
        for number in range(41, 61):
            decided.verdicts.decide("eve", decided.tasks.get(number).verdict_id, "reject")
    app = review_app(decided, plans=Planner())
    with Client(app) as lead, Client(app) as reviewer:
        lead.sign_in("lead"), reviewer.sign_in("reviewer")
        text = reviewer.get("/how-well").text
        assert "Another plan" in text and "compare plans" not in text
        fields = dict(re.findall(r'name="(policy|prevalence)" value="([^"]*)"', lead.get("/how-well").text))
        assert reviewer.submit("/how-well/plans", **fields).status_code == 403
        text = lead.submit("/how-well/plans", **fields).text
        assert "100 bad and 200 clear images" in text and "as people found" in text
        row = re.search(r'<tr class="good">.*?</tr>', text, re.S).group()
        share = float(fields["prevalence"])
        assert f"{suggested:.1%}" in row and f"{1000 * share * (1 - suggested):.2f}" in row
        assert f"{1000 * (share * suggested + (1 - share) * 0.02):.1f}" in row
        key = re.search(r'name="key" value="([^"]*)"', row).group(1)
        assert reviewer.submit("/how-well/plan", **fields, key=key).status_code == 403
        assert lead.submit("/how-well/plan", **fields, key="another").status_code == 409
        assert lead.submit("/how-well/plan", **{**fields, "policy": "none"}, key=key).status_code == 404
        assert decided.settings.get("plans") == {}
        text = lead.submit("/how-well/plan", **fields, key=key).text
        assert "as was applied here" in text
        applied = decided.settings.get("plans")["firearms"]
        assert (
            applied["bundle"] == "ab" * 32 and Plan.from_json(applied["plan"]).sensitivity.value == suggested
        )
        assert decided.settings.get("thresholds") == {}  # a plan brings its own
        told = {entry.subject: entry.actor for entry in decided.audit.newest(2)}
        assert told == {"setting plans": "lead", "setting thresholds": "lead"}
        lead.submit("/how-well/plan", **fields)
        assert decided.settings.get("plans") == {}


def test_without_a_service_there_is_nothing_to_apply_a_threshold_to(decided):
    with Client(review_app(decided, entrance="secret")) as visitor:
        visitor.get("/enter/secret")
        text = visitor.get("/how-well").text
        assert "75.0%" in text and "how-well/threshold" not in text and "moderate --threshold" in text


def test_the_dashboard_tells_rate_cost_fill_and_plan(client, decided):
    text = re.sub(r"\s+", " ", client("reviewer").get("/dashboard").text)
    assert "<b>60</b> images in 24 hours" in text and "<b>66.7%</b> flagged" in text
    assert "<b>93.8%</b> of a chunk filled" in text and "<td>individual</td>" in text
    part = client("reviewer").get("/dashboard", headers={"HX-Request": "true"}).text
    assert "<html" not in part and "images in 24 hours" in part


def test_admins_invite_people_and_make_and_revoke_keys(client, decided):
    admin = client("admin")
    link = re.search(
        r'id="link">[^<]*(/join/[^<]*)<', admin.submit("/settings/invite", role="lead").text
    ).group(1)
    assert "invited as lead" in client().get(link).text
    made = admin.submit(
        "/settings/keys", name="uploads", scopes=["moderate", "jobs"], quota="60", days="30"
    ).text
    key = decided.keys.find(re.search(r'id="key">([^<]*)<', made).group(1))
    assert key.scopes == {"moderate", "jobs"} and key.quota == 60
    assert "poolsieve_" not in admin.get("/settings").text.replace("poolsieve_session", "")
    admin.submit(f"/settings/keys/{key.id}/revoke")
    assert decided.keys.get(key.id).revoked_at is not None
    assert admin.submit("/settings/user/3", role="reviewer").status_code == 400  # the last admin
