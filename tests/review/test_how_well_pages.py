"""How well, dashboard and settings, without a browser."""

import re

import pytest
from review_site import add_people, fill


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
        assert f">{word}</b>" in text and "from a score of <b>0.35</b>" in text
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
