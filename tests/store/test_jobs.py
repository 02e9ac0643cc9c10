import threading

import pytest
from store_rows import chunk_record, verdict_record

from poolsieve.store import JobConflictError, Store
from poolsieve.store.deliveries import NewDelivery


def create(store, key, images=10, policies=("firearms",), **changes):
    values = {"key_id": key.id, "body_hash": "a" * 64, "policies": policies}
    items = [(f"{number}.jpg", f"s3://b/{number}.jpg") for number in range(images)]
    return store.jobs.create(**{**values, "items": items, **changes})


@pytest.fixture
def key(store):
    return store.keys.create("root", "uploads")[0]


def judge(store, job, positions, policy="firearms", **options):
    verdicts = [
        verdict_record(number, "flagged" if number % 3 == 0 else "clear", job_id=job.id, position=number)
        for number in positions
    ]
    return store.verdicts.record([chunk_record(verdicts, policy)], **options)[0]


def test_a_job_goes_from_waiting_to_done_with_its_counts(store, key, clock):
    job, new = create(store, key)
    assert new and (job.state, job.total, job.done) == ("waiting", 10, 0)
    assert store.jobs.claim("one", 60).id == job.id
    assert store.jobs.claim("two", 60) is None
    judge(store, job, range(6))
    assert [item.position for item in store.jobs.pending(job.id)] == [6, 7, 8, 9]
    clock.time += 5
    judge(store, job, range(6, 10))
    done = store.jobs.get(job.id, key_id=key.id)
    assert (done.state, done.done, done.flagged, done.errors, done.finished_at) == (
        "done",
        10,
        4,
        0,
        clock.time,
    )
    assert store.jobs.pending(job.id) == []
    assert [verdict.position for verdict in store.verdicts.of_job(job.id)] == list(range(10))
    assert [verdict.position for verdict in store.verdicts.of_job(job.id, after=3, limit=2)] == [4, 5]
    assert store.audit.newest(1)[0].action == "finish"
    assert store.jobs.get(job.id, key_id="another") is None


def test_a_chunk_that_is_repeated_after_a_kill_counts_nothing_twice(store, key):
    job, _ = create(store, key)
    first = judge(store, job, range(6))
    assert all(first)
    again = judge(store, job, range(3, 9))
    assert [name is None for name in again] == [True] * 3 + [False] * 3
    assert store.jobs.get(job.id).done == 9
    assert judge(store, job, range(6)) == [None] * 6
    assert len(store.verdicts.of_job(job.id)) == 9


def test_an_item_is_done_when_all_policies_have_decided_it(store, key):
    job, _ = create(store, key, images=3, policies=("firearms", "cars"))
    judge(store, job, [0, 1, 2])
    judge(store, job, [1], "cars")
    assert [(item.position, item.missing) for item in store.jobs.pending(job.id)] == [
        (0, ("cars",)),
        (2, ("cars",)),
    ]
    assert store.jobs.get(job.id).done == 1
    judge(store, job, [0, 2], "cars")
    assert store.jobs.get(job.id).state == "done"


def test_a_lease_that_runs_out_gives_the_job_to_another(store, key, clock):
    job, _ = create(store, key)
    assert store.jobs.claim("one", 60).id == job.id
    clock.time += 50
    assert store.jobs.renew(job.id, "one", 60) and not store.jobs.renew(job.id, "two", 60)
    clock.time += 50
    assert store.jobs.claim("two", 60) is None
    clock.time += 11
    assert store.jobs.claim("two", 60).id == job.id
    assert not store.jobs.renew(job.id, "one", 60)


def test_the_same_idempotency_key_at_once_makes_one_job(store, store_url, key):
    made, problems = [], []

    def ask():
        try:
            with Store(store_url) as own:
                made.append(create(own, key, idempotency_key="x"))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len({job.id for job, _ in made}) == 1
    assert sum(new for _, new in made) == 1
    assert len(store.jobs.newest()) == 1


def test_an_idempotency_key_is_for_one_body_of_one_api_key(store, key):
    job, _ = create(store, key, idempotency_key="x")
    with pytest.raises(JobConflictError, match=f"job {job.id}"):
        create(store, key, idempotency_key="x", body_hash="b" * 64)
    other = store.keys.create("root", "other")[0]
    assert create(store, other, idempotency_key="x")[1]
    assert create(store, key)[1] and create(store, key)[1]


def test_cancelled_and_failed_jobs_have_ended(store, key):
    first, second = create(store, key)[0], create(store, key)[0]
    assert store.jobs.cancel("mara", first.id) and not store.jobs.cancel("mara", first.id)
    assert store.jobs.fail(second.id, "the archive is gone")
    assert store.jobs.get(second.id).error == "the archive is gone"
    assert store.jobs.claim("one", 60) is None
    judge(store, first, range(10))  # a chunk that was on its way
    assert store.jobs.get(first.id).state == "cancelled"
    assert create(store, key, images=0)[0].state == "done"


def test_deliveries_are_queued_with_the_chunk_and_retried_when_due(store, key, clock):
    job, _ = create(store, key, images=4)

    def tell(chunk, verdicts, finished):
        for name, verdict in verdicts:
            if verdict.status == "flagged":
                yield NewDelivery("verdict.flagged", "https://example.org", {"id": name})
        yield from (NewDelivery("job.finished", "https://example.org", {"id": one}) for one in finished)

    names = judge(store, job, range(4), deliveries_made=tell)
    due = store.deliveries.claim(10, 30)
    assert [one.body["id"] for one in due] == [names[0], names[3], job.id]
    assert [one.attempts for one in due] == [1, 1, 1]
    assert store.deliveries.claim(10, 30) == []
    store.deliveries.delivered(due[0].id)
    store.deliveries.retry(due[1].id, "status 500", clock.time + 5)
    store.deliveries.failed(due[2].id, "gone")
    clock.time += 6
    again = store.deliveries.claim(10, 30)
    assert [(one.id, one.attempts) for one in again] == [(due[1].id, 2)]
    clock.time += 31  # whoever had it died
    assert [one.attempts for one in store.deliveries.claim(10, 30)] == [3]
    assert store.deliveries.counts() == {"delivered": 1, "failed": 1, "waiting": 1}


def test_a_chunk_that_cannot_be_told_of_is_not_recorded(store, key):
    job, _ = create(store, key, images=4)

    def tell(chunk, verdicts, finished):
        raise RuntimeError("no address")

    with pytest.raises(RuntimeError, match="no address"):
        judge(store, job, range(4), deliveries_made=tell)
    assert store.jobs.get(job.id).done == 0 and list(store.verdicts.all()) == []
