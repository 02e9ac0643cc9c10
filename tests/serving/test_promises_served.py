"""What plans promise reaches the setting that the review page compares with."""

import pytest
from planted import PlantedEngine, planted_bundle
from served import planted_policy, png, serving, wait_until

from poolsieve.planning.plans import Plan
from poolsieve.serving.policies import Policy
from poolsieve.statistics import Estimate


def sure(value):
    return Estimate(value, value, value)


def planned_policy(name):
    """A glance where few images are bad, individual tests with another threshold where many are."""
    glance = Plan("glance", {"chunk": 64}, 0.03, sure(0.8), sure(0.97), sure(0.3), sure(0.0))
    own = {"chunk": 64, "threshold": 0.4}
    individual = Plan("individual", own, 0.5, sure(0.9), sure(0.98), sure(1.0), sure(0.0))
    bundle = planted_bundle()
    bundle.name = name
    return Policy(name, bundle, PlantedEngine(), [glance, individual], seed=7)


def test_promises_are_told_at_the_start_and_follow_the_plan_in_force(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    policies = [planned_policy("planned"), planted_policy("given")]
    with serving(url, policies=policies, data=tmp_path) as served:
        settings = served.store.settings
        settings.set("test", {"thresholds": {"planned": 0.7}})
        promises = settings.get("promises")
        assert promises["given"] == {"threshold": 0.5, "plan": str(policies[1].scheme)}
        assert promises["planned"] == {
            "sensitivity": 0.9,
            "specificity": 0.98,
            "cost": 1.0,
            "prevalence": 0.5,
            "threshold": 0.4,
            "plan": "individual (threshold 0.4)",
        }
        clear = [png(False, number) for number in range(64)]

        def the_glance_is_in_force():
            assert served.moderate(clear, policies="planned").status_code == 200
            return settings.get("promises")["planned"]["sensitivity"] == 0.8

        wait_until(the_glance_is_in_force)
        assert policies[0].threshold == 0.7
        assert settings.get("promises")["planned"]["threshold"] == 0.5  # the plan's own, not what was applied
        assert settings.get("promises")["given"] == promises["given"]
        told = [entry.actor for entry in served.store.audit.newest(100) if "promises" in entry.subject]
        assert told == ["poolsieve", "poolsieve"]  # once for each plan, however many chunks


def test_a_service_leaves_the_promises_of_others_alone(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with serving(url, policies=[planted_policy("first")], data=tmp_path):
        pass
    with serving(url, policies=[planted_policy("second")], data=tmp_path) as served:
        assert set(served.store.settings.get("promises")) == {"first", "second"}


def test_a_plan_that_a_person_applied_decides_the_next_chunk_and_can_be_taken_back(tmp_path):
    applied = Plan(
        "cascade", {"chunk": 64, "threshold": 0.3}, 0.1, sure(0.95), sure(0.9), sure(0.6), sure(0.0)
    )
    with serving(
        f"sqlite:///{tmp_path / 'store.sqlite'}", policies=[planned_policy("planned")], data=tmp_path
    ) as served:
        settings = served.store.settings

        def grounds():
            answer = served.moderate([png(False, number) for number in range(3)]).json()
            name = answer["results"][0]["policies"]["planned"]["verdict_id"]
            return served.store.verdicts.get(name).grounds

        assert grounds()["threshold"] != 0.3
        settings.set("lead", {"plans": {"planned": {"bundle": "ab" * 32, "plan": applied.to_json()}}})
        wait_until(lambda: grounds()["threshold"] == 0.3)
        assert "cascade" in grounds()["scheme"]
        assert settings.get("promises")["planned"]["sensitivity"] == 0.95
        settings.set("lead", {"thresholds": {"planned": 0.8}})
        wait_until(lambda: grounds()["threshold"] == 0.8)
        # A plan of another bundle is none that could be followed.
        settings.set(
            "lead", {"plans": {"planned": {"bundle": "cd" * 32, "plan": applied.to_json()}}, "thresholds": {}}
        )
        wait_until(lambda: "cascade" not in grounds()["scheme"])


def test_a_plan_that_cannot_be_served_changes_nothing(tmp_path):
    policy = planned_policy("planned")
    before = str(policy.scheme)
    decides = [
        Plan("oneshot", {"chunk": 64}, 0.1, sure(0.9), sure(0.9), sure(0.5), sure(0.0)),
        Plan("individual", {"chunk": 100}, 0.1, sure(0.9), sure(0.9), sure(0.5), sure(0.0)),
    ]
    for plan in decides:
        with pytest.raises(ValueError, match=r"pools alone|chunks of"):
            policy.apply(plan, None)
    assert str(policy.scheme) == before and policy.plan is None
