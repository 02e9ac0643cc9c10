import threading

import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.exc import DBAPIError

from poolsieve.store import Store
from poolsieve.store.schema import audit, audit_head


def unlock(store):
    """As somebody does who may change the database itself."""
    with store.database.writing() as connection:
        if store.database.is_sqlite:
            for change in ("update", "delete"):
                connection.execute(text(f"DROP TRIGGER audit_keeps_{change}"))
        else:
            connection.execute(text("DROP TRIGGER audit_keeps ON audit"))


def write(store, *statements):
    with store.database.writing() as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def ten(store, clock):
    for number in range(10):
        clock.time += 0.1 + number
        store.audit.add("mara", "approve", f"verdict {number}", {"score": number / 7, "name": "ü\udcff\0"})
    return store


def test_a_log_as_it_was_written_is_whole(ten):
    state = ten.audit.verify()
    assert state.whole and state.count == 10
    assert (state.count, state.head) == ten.audit.head()
    assert [entry.number for entry in ten.audit.newest(3)] == [10, 9, 8]
    assert [entry.number for entry in ten.audit.newest(3, before=2)] == [1]
    assert ten.audit.newest(subject="verdict 4")[0].details["score"] == 4 / 7


def test_entries_can_be_neither_changed_nor_removed(ten):
    for statement in (update(audit).values(actor="eve"), delete(audit)):
        with pytest.raises(DBAPIError, match="append-only"):
            write(ten, statement)
    assert ten.audit.verify().whole


@pytest.mark.parametrize("number", [1, 5, 10])
@pytest.mark.parametrize("column", ["time", "actor", "action", "subject", "details", "previous", "hash"])
def test_any_change_is_found(ten, column, number):
    unlock(ten)
    other = {"time": 1.0, "details": {"score": 0.5}}.get(column, "a" * 64)
    write(ten, update(audit).where(audit.c.number == number).values({column: other}))
    assert any(f"entry {number}" in problem for problem in ten.audit.verify().problems)


@pytest.mark.parametrize("number", [1, 5, 10])
def test_any_removal_is_found(ten, number):
    unlock(ten)
    write(ten, delete(audit).where(audit.c.number == number))
    assert not ten.audit.verify().whole


def test_a_log_cut_off_together_with_its_head_is_found_by_a_kept_head(ten):
    kept = ten.audit.head()
    unlock(ten)
    before = ten.audit.newest(1, before=10)[0]
    write(
        ten,
        delete(audit).where(audit.c.number == 10),
        update(audit_head).values(entries=9, hash=before.hash),
    )
    assert ten.audit.verify().whole
    assert ten.audit.verify(head=kept).problems == (
        "the kept head tells of 10 entries, and the log ends with entry 9",
    )
    ten.audit.add("eve", "approve", "verdict 9")
    assert ten.audit.verify(head=kept).problems == ("entry 10 is not the one that the kept head tells of",)


def test_a_missing_head_is_found(ten):
    write(ten, delete(audit_head))
    assert "the stored head is missing" in ten.audit.verify().problems


def test_many_writers_at_once_make_one_chain(store_url):
    problems = []

    def work(name):
        try:
            with Store(store_url) as own:
                for number in range(15):
                    own.audit.add(name, "approve", f"verdict {number}")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(f"reviewer {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    with Store(store_url) as store:
        state = store.audit.verify()
    assert state.whole and state.count == 90


def test_what_fails_leaves_no_entry(store):
    with pytest.raises(ValueError, match="no setting"):
        store.settings.set("mara", {"blur": False, "colour": 1})
    assert store.settings.get("blur") is True
    assert store.audit.head()[0] == 0
