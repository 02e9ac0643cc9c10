"""Who gets in, who may do what, and what is refused without a token."""

import re

import pytest
from review_site import PASSWORD, add_people, fill

from poolsieve.review.review_application import PARTS

POSTS = [route.path for part in PARTS for route in part.routes.routes if "POST" in route.methods]


@pytest.fixture
def people(store):
    return add_people(store)


def filled(path):
    return re.sub(r"\{\w+\}", "1", path)


def test_every_page_asks_who_one_is(client, people):
    visitor = client()
    for path in ("/", "/next", "/task/1", "/audit", "/how-well", "/dashboard", "/settings", "/audit.jsonl"):
        assert visitor.get(path).url.path == "/sign-in"
    answer = visitor.get("/picture/1", follow_redirects=False)
    assert answer.status_code == 303


def test_the_first_admin_comes_by_a_link_that_works_once(client, store):
    token = store.users.invite("poolsieve", "admin")
    visitor = client()
    csrf = visitor.token(f"/join/{token}")
    fields = {"csrf": csrf, "name": "ada", "password": "short"}
    assert "at least 10" in visitor.post(f"/join/{token}", data=fields).text
    answer = visitor.post(f"/join/{token}", data={**fields, "password": PASSWORD})
    assert "ada</bdi>, admin" in answer.text
    assert client().get(f"/join/{token}").status_code == 404


def test_wrong_passwords_lock_the_account(client, people, clock):
    visitor = client()
    for _ in range(5):
        assert visitor.sign_in("lead", "wrong password").status_code == 403
    assert visitor.sign_in("lead").status_code == 403
    clock.time += 900
    assert visitor.sign_in("lead").status_code == 200


def test_signing_out_ends_the_session(client, people):
    visitor = client("lead")
    cookie = visitor.cookies["poolsieve_session"]
    visitor.submit("/sign-out")
    visitor.cookies.set("poolsieve_session", cookie)
    assert visitor.get("/").url.path == "/sign-in"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_cookies_are_for_this_site_alone_and_by_https_if_the_page_is(client, people, scheme):
    visitor = client()
    place = f"{scheme}://testserver/sign-in"
    fields = {"csrf": visitor.token(place), "name": "lead", "password": PASSWORD}
    answer = visitor.post(place, data=fields, follow_redirects=False)
    made = next(line for line in answer.headers.get_list("set-cookie") if "poolsieve_session" in line)
    assert "HttpOnly" in made and "SameSite=lax" in made and ("Secure" in made) == (scheme == "https")


def test_there_are_posts_to_try():
    assert len(POSTS) >= 12


@pytest.mark.parametrize("name", ["admin", None])
def test_nothing_is_changed_without_the_token_of_the_session(client, store, people, name):
    fill(store, flagged=3)
    visitor = client(name)
    before = store.audit.head()
    for path in POSTS:
        for token in ("", "wrong", "ü"):
            fields = {"csrf": token, "tasks": "1", "decision": "reject", "role": "admin", "name": "eve"}
            answer = visitor.post(filled(path), data=fields)
            assert answer.status_code in (403, 422), path
            whole = {**fields, "password": PASSWORD, "text": "t", "policy": "firearms", "threshold": "0.9"}
            whole |= {"prevalence": "0.1"}
            whole |= {"sampling_percent": "1", "thumbnail_days": "1", "lease_minutes": "1", "scopes": "jobs"}
            assert visitor.post(filled(path), data=whole).status_code == 403, path
            header = visitor.post(filled(path), data=whole, headers={"X-CSRF-Token": token.encode()})
            assert header.status_code == 403, path
    assert store.audit.head() == before


def test_a_form_of_another_site_is_refused_even_with_the_token(client, people):
    visitor = client("lead")
    fields = {"csrf": visitor.token(), "blur": "on"}
    for origin in ("https://evil.example", "null", "http://testserver.evil.example"):
        answer = visitor.post("/settings/own", data=fields, headers={"Origin": origin})
        assert answer.status_code == 403
    answer = visitor.post("/settings/own", data=fields, headers={"Origin": "http://testserver"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("path", "fields", "least"),
    [
        ("/audit", None, "lead"),
        ("/audit.jsonl", None, "lead"),
        ("/?reason=escalated", None, "lead"),
        ("/how-well/threshold", {"policy": "firearms", "threshold": "0.7"}, "lead"),
        ("/how-well/plan", {"policy": "firearms", "prevalence": "0.1"}, "lead"),
        (
            "/settings/organisation",
            {"sampling_percent": "5", "thumbnail_days": "3", "lease_minutes": "5"},
            "admin",
        ),
        ("/settings/invite", {"role": "admin"}, "admin"),
        ("/settings/user/1", {"role": "reviewer"}, "admin"),
        ("/settings/keys", {"name": "k", "scopes": "moderate"}, "admin"),
        ("/settings/keys/abc/revoke", {}, "admin"),
    ],
)
def test_a_role_without_the_right_gets_403(client, store, people, path, fields, least):
    fill(store, flagged=1)
    roles = ["reviewer", "lead", "admin"]
    for role in roles:
        visitor = client(role)
        answer = visitor.get(path) if fields is None else visitor.submit(path, **fields)
        expected = 200 if roles.index(role) >= roles.index(least) else 403
        assert answer.status_code == expected, role


def test_every_answer_has_the_policy_and_nothing_is_kept(client, store, people):
    fill(store, flagged=1)
    visitor = client("admin")
    for path in ("/", "/task/1", "/sign-in", "/nothing", "/static/style.css", "/audit", "/picture/1"):
        headers = visitor.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; base-uri 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert visitor.get("/").headers["cache-control"] == "no-store"


def test_no_page_has_a_script_or_a_style_of_its_own(client, store, people):
    fill(store, flagged=2)
    visitor = client("admin")
    for path in ("/", "/task/1", "/audit", "/how-well", "/dashboard", "/settings", "/nothing"):
        text = visitor.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
