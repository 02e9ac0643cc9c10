import numpy as np
import pytest
from store_rows import chunk_record, verdict_record

from poolsieve.moderation.verdicts import PoolReading, Verdict
from poolsieve.store import Store, TaskFilter, grounds_of


def test_a_verdict_is_kept_whole_whatever_its_image_is_called(store):
    names = ["a.jpg", "ü\u202e.jpg", "b\udcff.jpg", "nul\0.jpg", "'; DROP TABLE verdicts; --", "x" * 300]
    made = [verdict_record(number, name=name) for number, name in enumerate(names)]
    identities = store.verdicts.record([chunk_record(made)])[0]
    found = [store.verdicts.get(identity) for identity in identities]
    assert [one.name for one in found] == [*names[:2], "b\\xff.jpg", "nul\\x00.jpg", *names[4:]]
    assert found[0].grounds == made[0].grounds and found[0].score == 0.9
    assert store.verdicts.get("nothing") is None
    assert [one.id for one in store.verdicts.of_image(found[0].sha256)] == [found[0].id]


def test_grounds_tell_neither_seed_nor_pool_mates():
    pool = PoolReading(3, (41, 42, 43), 1, (0.1, 0.8, 0.1))
    verdict = Verdict(
        "a", None, "flagged", 0.985, "individual", None, 41, 0, 0.63, 0.9, (pool,), None, "b", "s", 77
    )
    told = grounds_of(verdict, threshold=0.5)
    assert told["pools"] == [{"size": 3, "count": 1}] and told["prior"] == 0.63 and told["threshold"] == 0.5
    assert not any(secret in str(told) for secret in ("41", "42", "43", "77"))


def test_pictures_are_made_for_what_people_see_and_expire(store, clock):
    store.settings.set("root", {"sampling_rate": 0.0, "thumbnail_days": 2})
    kinds = ["flagged", "clear", "error", "not_image"]
    store.verdicts.record([chunk_record([verdict_record(n, kind) for n, kind in enumerate(kinds)])])
    assert [store.images.thumbnail(f"{number:064x}") for number in range(4)] == [b"jpeg 0", None, None, None]
    assert store.images.original(f"{0:064x}") is None
    clock.time += 2 * 86_400 - 1
    assert store.images.purge() == 0
    clock.time += 1
    assert store.images.purge() == 1 and store.images.purge() == 0
    assert store.images.thumbnail(f"{0:064x}") is None
    assert store.audit.newest(1)[0].details == {"images": 1}


def test_originals_are_kept_if_asked_for_and_expire_too(store, clock):
    store.settings.set("root", {"keep_originals": True, "sampling_rate": 0.0})
    store.verdicts.record([chunk_record([verdict_record(0), verdict_record(1, "clear")])])
    assert store.images.original(f"{0:064x}") == b"bytes 0" and store.images.original(f"{1:064x}") is None
    clock.time += 31 * 86_400
    store.images.purge()
    assert store.images.original(f"{0:064x}") is None


def test_a_picture_that_is_seen_again_is_kept_longer(store, clock):
    store.verdicts.record([chunk_record([verdict_record(0)])])
    clock.time += 29 * 86_400
    store.verdicts.record([chunk_record([verdict_record(0)])])
    clock.time += 29 * 86_400
    assert store.images.purge() == 0


def test_clear_images_are_sampled_at_the_rate_with_its_weight(store_url, clock):
    with Store(store_url, now=clock, rng=np.random.default_rng(0)) as store:
        store.settings.set("root", {"sampling_rate": 0.25})
        store.verdicts.record([chunk_record([verdict_record(n, "clear") for n in range(2000)])])
        assert 440 <= store.tasks.counts(TaskFilter())["sampled"] <= 560
        user = store.users.add("mara", "long enough", "reviewer")
        assert {task.weight for task in store.tasks.claim(user, 50, 60)} == {4.0}


def test_decisions_of_other_tools_close_the_task_and_are_in_the_audit(store):
    flagged, clear = store.verdicts.record([chunk_record([verdict_record(0), verdict_record(1, "clear")])])[0]
    assert store.verdicts.decide("key abc", flagged, "reject", "seen in another tool")
    assert store.verdicts.decide("key abc", clear, "approve")
    assert not store.verdicts.decide("key abc", "nothing", "approve")
    with pytest.raises(ValueError, match="give approve or reject"):
        store.verdicts.decide("key abc", clear, "escalate")
    assert store.tasks.of_verdict(flagged).outcome == "rejected"
    assert [one["decision"] for one in store.verdicts.decisions(flagged)] == ["reject"]
    assert [entry.subject for entry in store.audit.newest()] == [f"verdict {clear}", f"verdict {flagged}"]


def test_chunks_of_several_policies_are_one_transaction(store):
    good = chunk_record([verdict_record(0)])
    bad = chunk_record([verdict_record(1, key_id="no such key")], "cars")
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        store.verdicts.record([good, bad])
    assert list(store.verdicts.all()) == []
