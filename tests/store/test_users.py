import threading

import pytest

PASSWORD = "correct horse"


def test_the_first_admin_comes_by_a_link_that_works_once(store, clock):
    token = store.users.invite("poolsieve", "admin")
    assert store.users.invited_as(token) == "admin" and store.users.invited_as("other") is None
    user = store.users.join(token, "ada", PASSWORD)
    assert user.role == "admin" and user.may("lead")
    assert store.users.invited_as(token) is None
    with pytest.raises(ValueError, match="used before or is too old"):
        store.users.join(token, "eve", PASSWORD)
    late = store.users.invite("ada", "reviewer")
    clock.time += 8 * 86_400
    with pytest.raises(ValueError, match="too old"):
        store.users.join(late, "eve", PASSWORD)
    assert [one.name for one in store.users.all()] == ["ada"]


def test_a_name_that_is_taken_does_not_use_up_the_link(store):
    store.users.add("ada", PASSWORD, "admin")
    token = store.users.invite("ada", "reviewer")
    with pytest.raises(ValueError, match="there is a user 'ada'"):
        store.users.join(token, "ada", PASSWORD)
    with pytest.raises(ValueError, match="at least 10"):
        store.users.join(token, "bea", "short")
    with pytest.raises(ValueError, match="1 to 64"):
        store.users.join(token, " bea", PASSWORD)
    assert store.users.join(token, "bea", PASSWORD).role == "reviewer"


def test_a_session_lasts_until_signing_out_or_the_end_of_a_shift(store, clock):
    store.users.add("ada", PASSWORD, "reviewer")
    token, session = store.users.sign_in("ada", PASSWORD)
    assert store.users.session(token) == session
    assert store.users.session(token + "x") is None
    store.users.sign_out(token)
    assert store.users.session(token) is None
    token, _ = store.users.sign_in("ada", PASSWORD)
    clock.time += 12 * 3600
    assert store.users.session(token) is None


def test_five_wrong_passwords_lock_the_account_also_all_at_once(store, clock):
    store.users.add("ada", PASSWORD, "reviewer")
    threads = [threading.Thread(target=_wrong, args=(store,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(ValueError, match="quarter of an hour"):
        store.users.sign_in("ada", PASSWORD)
    assert "lock" in {entry.action for entry in store.audit.newest()}
    clock.time += 900
    store.users.sign_in("ada", PASSWORD)
    for _ in range(4):
        _wrong(store)
    store.users.sign_in("ada", PASSWORD)  # which forgets the four
    for _ in range(4):
        _wrong(store)
    store.users.sign_in("ada", PASSWORD)


def _wrong(store):
    with pytest.raises(ValueError, match="wrong"):
        store.users.sign_in("ada", "wrong password")


def test_a_name_that_does_not_exist_is_answered_like_a_wrong_password(store):
    store.users.add("ada", PASSWORD, "reviewer")
    said = []
    for name in ("ada", "nobody", "\udcff"):
        with pytest.raises(ValueError) as raised:
            store.users.sign_in(name, "wrong password")
        said.append(str(raised.value))
    assert len(set(said)) == 1


def test_the_last_admin_stays_and_who_is_changed_signs_in_again(store):
    ada = store.users.add("ada", PASSWORD, "admin")
    bea = store.users.add("bea", PASSWORD, "reviewer")
    for change in ({"role": "lead"}, {"disabled": True}):
        with pytest.raises(ValueError, match="last admin"):
            store.users.change("ada", ada.id, **change)
    token, _ = store.users.sign_in("bea", PASSWORD)
    store.users.change("ada", bea.id, role="admin")
    assert store.users.session(token) is None
    store.users.change("bea", ada.id, disabled=True)
    with pytest.raises(ValueError, match="wrong"):
        store.users.sign_in("ada", PASSWORD)
    with pytest.raises(ValueError, match="there is no user 99"):
        store.users.change("ada", 99, role="lead")


def test_wellness_is_ones_own(store):
    ada = store.users.add("ada", PASSWORD, "reviewer")
    store.users.set_wellness(ada, {"blur": False})
    assert store.users.get(ada.id).wellness == {"blur": False}
