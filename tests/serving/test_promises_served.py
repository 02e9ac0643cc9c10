"""What plans promise reaches the setting that the review page compares with."""

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
