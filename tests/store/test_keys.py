import pytest
from sqlalchemy import select

from poolsieve.store import Store, schema


def test_a_key_is_found_by_its_text_only_and_kept_as_a_hash(store):
    key, text = store.keys.create("root", "uploads", scopes=["moderate"], quota=60)
    assert store.keys.find(text) == key == store.keys.get(key.id)
    assert key.scopes == {"moderate"} and key.quota == 60
    for wrong in (
        text[:-1],
        text + "a",
        text.replace("poolsieve", "other"),
        text.rpartition("_")[0],
        "",
        "\udcff_a_b",
    ):
        assert store.keys.find(wrong) is None
    with store.database.reading() as connection:
        row = connection.execute(select(schema.keys)).one()
    assert text.rpartition("_")[2] not in str(row)


def test_revoked_and_expired_keys_are_not_found(store, clock):
    key, text = store.keys.create("root", "a", expires_at=clock.time + 10)
    other, other_text = store.keys.create("root", "b")
    assert store.keys.find(text) and store.keys.find(other_text)
    clock.time += 10
    assert store.keys.find(text) is None
    assert store.keys.revoke("root", other.id) and not store.keys.revoke("root", other.id)
    assert store.keys.find(other_text) is None
    assert [entry.action for entry in store.audit.newest()] == ["revoke", "create", "create"]
    assert {one.id for one in store.keys.all()} == {key.id, other.id}


def test_scopes_and_quotas_that_are_none_are_refused(store):
    with pytest.raises(ValueError, match="no scope 'everything'"):
        store.keys.create("root", "a", scopes=["everything"])
    with pytest.raises(ValueError, match="quota 0"):
        store.keys.create("root", "a", quota=0)


def test_settings_have_defaults_and_outlive_the_process(store, store_url):
    assert store.settings.get("sampling_rate") == 0.01
    store.settings.set("root", {"sampling_rate": 0.2, "thresholds": {"firearms": 0.7}, "blur": True})
    with Store(store_url) as again:
        assert again.settings.all() == {
            **store.settings.all(), "sampling_rate": 0.2, "thresholds": {"firearms": 0.7}
        }  # fmt: skip
    told = [(entry.subject, entry.details) for entry in store.audit.newest()]
    assert told == [
        ("setting thresholds", {"from": {}, "to": {"firearms": 0.7}}),
        ("setting sampling_rate", {"from": 0.01, "to": 0.2}),
    ]
