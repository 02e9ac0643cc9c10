import threading
from collections import Counter

import pytest
from sqlalchemy import func, select
from store_rows import chunk_record, verdict_record

from poolsieve.store import LeaseLostError, Store, TaskFilter, schema


@pytest.fixture
def people(store):
    return {role: store.users.add(role, "long enough", role) for role in ("reviewer", "lead", "admin")}


@pytest.fixture
def five(store, clock):
    """Five flagged images with scores .5 to .9, a second apart."""
    store.settings.set("root", {"sampling_rate": 0.0})
    names = []
    for number in range(5):
        record = verdict_record(number, score=0.5 + number / 10)
        names += store.verdicts.record([chunk_record([record], "firearms" if number % 2 else "cars")])[0]
        clock.time += 1
    return names


def test_a_task_has_one_holder_until_the_lease_runs_out(store, people, five, clock):
    first = store.tasks.claim(people["reviewer"], 3, 60)
    assert [task.score for task in first] == [0.9, 0.8, 0.7]
    second = store.tasks.claim(people["lead"], 9, 60)
    assert {task.id for task in second}.isdisjoint(task.id for task in first) and len(second) == 2
    assert [task.id for task in store.tasks.claim(people["reviewer"], 9, 60)] == [task.id for task in first]
    with pytest.raises(LeaseLostError):
        store.tasks.hold(people["lead"], first[0].id, 60)
    clock.time += 61
    assert len(store.tasks.claim(people["lead"], 9, 60)) == 5
    with pytest.raises(LeaseLostError, match="is not yours any more"):
        store.tasks.decide(people["reviewer"], [first[0].id], "reject")
    assert store.verdicts.decisions(first[0].verdict_id) == []
    store.tasks.release(people["lead"], [first[0].id])
    assert store.tasks.hold(people["reviewer"], first[0].id, 60).holder == people["reviewer"].id


def test_decisions_are_all_or_none_and_in_the_audit_with_their_grounds(store, people, five, clock):
    mine = store.tasks.claim(people["reviewer"], 2, 60)
    other = store.tasks.claim(people["lead"], 1, 60)[0]
    with pytest.raises(LeaseLostError):
        store.tasks.decide(people["reviewer"], [mine[0].id, other.id], "reject")
    assert store.tasks.get(mine[0].id).outcome is None
    store.tasks.decide(people["reviewer"], [task.id for task in mine], "reject", "a rifle")
    assert [store.tasks.get(task.id).outcome for task in mine] == ["rejected", "rejected"]
    entry = store.audit.newest(1)[0]
    assert (entry.actor, entry.action) == ("reviewer", "reject")
    assert entry.details == {
        "comment": "a rifle",
        "policy": mine[0].policy,
        "score": mine[0].score,
        "status": "flagged",
    }
    with pytest.raises(LeaseLostError):
        store.tasks.decide(people["reviewer"], [mine[0].id], "approve")
    with pytest.raises(ValueError, match="decision 'keep'"):
        store.tasks.decide(people["reviewer"], [mine[0].id], "keep")


def test_escalated_tasks_are_for_leads_and_keep_what_they_stand_for(store, people, five):
    task = store.tasks.claim(people["reviewer"], 1, 60)[0]
    store.tasks.decide(people["reviewer"], [task.id], "escalate", "not sure")
    assert task.id not in {one.id for one in store.tasks.claim(people["reviewer"], 9, 60)}
    with pytest.raises(LeaseLostError):
        store.tasks.hold(people["reviewer"], task.id, 60)
    held = store.tasks.claim(people["lead"], 9, 60, TaskFilter(reason="escalated"))
    assert [(one.id, one.status, one.weight) for one in held] == [(task.id, "flagged", 1.0)]
    assert store.tasks.counts(user=people["reviewer"]) == {"flagged": 4}
    assert store.tasks.counts(user=people["lead"]) == {"flagged": 4, "escalated": 1}


def test_undo_takes_back_the_newest_decision_and_only_ones_own(store, people, five):
    first, second = store.tasks.claim(people["reviewer"], 2, 60)
    store.tasks.decide(people["reviewer"], [first.id], "reject")
    store.tasks.decide(people["reviewer"], [second.id], "escalate")
    assert store.tasks.undo(people["lead"]) == []
    assert [task.id for task in store.tasks.undo(people["reviewer"])] == [second.id]
    assert store.tasks.get(second.id).reason == "flagged"
    assert [task.id for task in store.tasks.undo(people["reviewer"])] == [first.id]
    assert store.tasks.get(first.id).outcome is None
    assert store.tasks.undo(people["reviewer"]) == []
    actions = [entry.action for entry in store.audit.newest(4)]
    assert actions == ["undo", "undo", "escalate", "reject"]
    assert all(one["undone_at"] for one in store.verdicts.decisions(first.verdict_id))


def test_what_a_lead_has_decided_since_is_not_undone(store, people, five):
    task = store.tasks.claim(people["reviewer"], 1, 60)[0]
    store.tasks.decide(people["reviewer"], [task.id], "escalate")
    store.tasks.hold(people["lead"], task.id, 60)
    store.tasks.decide(people["lead"], [task.id], "approve")
    assert store.tasks.undo(people["reviewer"]) == []
    assert store.tasks.get(task.id).outcome == "approved"


def test_filters_and_orders(store, people, five, clock):
    def scores(**wanted):
        found = store.tasks.claim(people["lead"], 9, 60, TaskFilter(**wanted))
        return [task.score for task in found]

    assert scores(policy="cars") == [0.9, 0.7, 0.5]
    assert scores(low=0.6, high=0.8) == [0.8, 0.7, 0.6]
    assert scores(order="oldest") == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert scores(since=clock.time - 2) == [0.9, 0.8]
    assert scores(until=clock.time - 4) == [0.5]
    assert scores(job_id="none") == scores(key_id="none") == scores(reason="sampled") == []
    with pytest.raises(ValueError, match="there are score, oldest, newest"):
        scores(order="name")


def test_a_sampled_image_hides_among_flagged_ones(store, people):
    store.settings.set("root", {"sampling_rate": 1.0})
    flagged = [verdict_record(n, score=0.6 + n / 100) for n in range(30)]
    clear = [verdict_record(100 + n, "clear", score=0.01) for n in range(30)]
    store.verdicts.record([chunk_record(flagged)])
    store.verdicts.record([chunk_record(clear)])
    tasks = store.tasks.claim(people["reviewer"], 60, 60)
    places = [place for place, task in enumerate(tasks) if task.status == "clear"]
    assert min(task.rank for task in tasks) >= 0.6
    assert 10 < sum(places) / 30 < 50 and min(places) < 25 and max(places) > 35


def test_twenty_reviewers_decide_every_task_once(store, store_url):
    """Reviewers of two processes' stores: half of them share one, the others have their own."""
    tasks, reviewers = 200, 20
    store.verdicts.record([chunk_record([verdict_record(n) for n in range(tasks)])])
    users = [store.users.add(f"reviewer {n}", "long enough", "reviewer") for n in range(reviewers)]
    problems, decided = [], []

    def work(user, shared):
        try:
            own = shared or Store(store_url)
            while held := own.tasks.claim(user, 3, 600):
                decided.extend(task.id for task in own.tasks.decide(user, [t.id for t in held], "approve"))
            if shared is None:
                own.close()
        except BaseException as error:
            problems.append(error)

    with Store(store_url) as shared:
        threads = [
            threading.Thread(target=work, args=(user, shared if n % 2 else None))
            for n, user in enumerate(users)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert problems == []
    assert Counter(decided) == dict.fromkeys(range(1, tasks + 1), 1)
    with store.database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(schema.decisions)).scalar() == tasks
    assert store.audit.verify().whole
