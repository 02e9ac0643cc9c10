"""Whole stories in a real browser: decisions by key, two reviewers, hostile names, accessibility."""

import re
from pathlib import Path

import pytest
from review_site import fill

from poolsieve.planning.plans import Plan
from poolsieve.review import review_app
from poolsieve.review.plan_offers import Offers
from poolsieve.statistics import Estimate

AXE = Path(__file__).with_name("axe.min.js")
SCREENS = ["/", "/task/1", "/audit", "/how-well", "/dashboard", "/settings"]


PROMISE = {"sensitivity": 0.9, "cost": 0.5, "prevalence": 0.1, "plan": "glance (threshold 0.5)"}


class Planner:
    """Has compared two plans."""

    def has(self, policy):
        return True

    def being_compared(self, policy):
        return False

    def offers(self, policy, prevalence, *, start=False):
        sure = [Estimate(value, value, value) for value in (0.95, 0.98, 0.4, 0.0)]
        plans = [Plan("glance", {"clear_below": bound}, 0.1, *sure) for bound in (0.001, 0.002)]
        return Offers("ab" * 32, 0.1, plans, (100, 200))


def held(visitor):
    return [
        task.get_attribute("data-task") for task in visitor.page.query_selector_all("form .task[data-task]")
    ]


def press_and_wait(visitor, key):
    """Press a key that sends a form, and wait for the page that comes back."""
    with visitor.page.expect_navigation():
        visitor.page.keyboard.press(key)


def plain_pictures(visitor):
    return [url for url in visitor.requests if "/picture/" in url and "blur=true" not in url]


def test_ten_decisions_by_keyboard_one_undone_one_escalated_all_in_the_audit(small_store, alone, page):
    fill(small_store, flagged=14)
    reviewer = page(alone).sign_in("reviewer")
    assert len(held(reviewer)) == 12
    assert plain_pictures(reviewer) == []
    reviewer.go("/next")
    decided = []
    for number in range(10):
        decided.append(reviewer.page.url.rsplit("/", 1)[1])
        press_and_wait(reviewer, "r" if number % 2 else "a")
    assert len(set(decided)) == 10
    press_and_wait(reviewer, "u")
    assert reviewer.page.url.endswith(f"/task/{decided[-1]}")
    press_and_wait(reviewer, "e")
    assert reviewer.problems == []
    lead = page(alone).sign_in("lead")
    lead.go("/audit?verify=true&actor=reviewer")
    text = lead.page.inner_text("main")
    assert "Whole: none of" in text
    told = [row.inner_text() for row in lead.page.query_selector_all("tbody td:nth-child(4)")]
    assert sorted(told) == sorted(["approve"] * 5 + ["reject"] * 5 + ["undo", "escalate", "sign in"])
    lead.go("/?reason=escalated")
    assert held(lead) == [decided[-1]]
    assert small_store.audit.verify().whole


def test_two_reviewers_never_get_the_same_task_until_a_lease_runs_out(store, clock, served, page):
    from review_site import add_people

    add_people(store)
    fill(store, flagged=20)
    url = served(review_app(store))
    first, second = page(url).sign_in("reviewer"), page(url).sign_in("lead")
    mine, theirs = held(first), held(second)
    assert len(mine) == 12 and len(theirs) == 8 and not set(mine) & set(theirs)
    clock.time += 601
    second.go("/")
    assert set(held(second)) & set(mine)
    first.page.check(f'input[name=tasks][value="{mine[0]}"]')
    with first.page.expect_navigation() as answer:
        first.page.keyboard.press("r")
    assert answer.value.status == 409


def test_nothing_is_shown_unblurred_before_it_is_asked_for(small_store, alone, page):
    fill(small_store, flagged=4, clear=2)
    visitor = page(alone).sign_in("lead")
    lead = next(user for user in small_store.users.all() if user.name == "lead")
    small_store.tasks.hold(lead, 2, 60)
    small_store.tasks.decide(lead, [2], "reject")
    for screen in (*SCREENS, "/task/2", "/next", "/?order=newest"):
        visitor.go(screen)
        visitor.page.mouse.wheel(0, 4000)  # pictures are loaded when they come into view
        visitor.page.wait_for_load_state("networkidle")
    asked = {url.split("/picture/")[1].split("?")[0] for url in visitor.requests if "/picture/" in url}
    assert asked == {str(number) for number in range(1, 7)}
    assert plain_pictures(visitor) == []
    visitor.go("/task/1")
    with visitor.page.expect_response(lambda answer: "blur=false&grey=true" in answer.url):
        visitor.page.keyboard.press("b")
    with visitor.page.expect_response(lambda answer: "blur=false&grey=false" in answer.url):
        visitor.page.keyboard.press("g")
    visitor.page.keyboard.press("b")
    visitor.page.wait_for_function(
        "document.querySelector('img.picture').src.includes('blur=true&grey=false')"
    )
    visitor.go("/")
    with visitor.page.expect_response(lambda answer: "blur=false&grey=true" in answer.url):
        visitor.page.hover(".task .frame")
    visitor.page.mouse.move(0, 0)
    visitor.page.wait_for_function("![...document.images].some(image => image.src.includes('blur=false'))")
    assert visitor.problems == []


def test_keys_are_letters_in_fields_and_the_browsers_with_modifiers(small_store, alone, page):
    fill(small_store, flagged=3)
    visitor = page(alone).sign_in("reviewer")
    visitor.go("/task/1")
    visitor.page.fill("textarea", "")
    visitor.page.click("textarea")
    visitor.page.keyboard.type("arebug?")
    assert visitor.page.input_value("textarea") == "arebug?"
    visitor.page.locator("h1").click()
    for keys in ("Control+a", "Alt+r", "Meta+e", "Control+u", "Shift+A"):
        visitor.page.keyboard.press(keys)
    visitor.page.keyboard.press("?")
    assert visitor.page.is_visible("dialog#help")
    visitor.page.keyboard.press("r")  # not behind the help
    visitor.page.keyboard.press("Escape")
    assert visitor.page.url.endswith("/task/1") and plain_pictures(visitor) == []
    assert small_store.tasks.get(1).outcome is None
    visitor.page.click("#comments button")
    visitor.page.wait_for_selector("#comments li")
    assert "arebug?" in visitor.page.inner_text("#comments")
    assert visitor.problems == []


def test_a_batch_in_the_grid_by_keyboard_alone(small_store, alone, page):
    fill(small_store, flagged=5)
    visitor = page(alone).sign_in("reviewer")
    first, _, third, *_ = held(visitor)
    for key in ("x", "ArrowRight", "ArrowRight", "x"):
        visitor.page.keyboard.press(key)
    press_and_wait(visitor, "a")
    assert {n for n in range(1, 6) if small_store.tasks.get(n).outcome} == {int(first), int(third)}
    press_and_wait(visitor, "u")
    assert len(held(visitor)) == 5
    press_and_wait(visitor, "Enter")
    assert "/task/" in visitor.page.url


def hostile_texts():
    """A hundred names and comments that would do harm where text is taken for more."""
    scripts = [
        "<script>alert({n})</script>",
        '"><img src=x onerror=alert({n})>',
        "'><svg onload=alert({n})>",
        "javascript:alert({n})",
        "</textarea><script>alert({n})</script>",
        "{{{{ 7 * 7 }}}} {n}",
        "{{% raw %}} {n}",
        "\u202egpj.{n}",
        "\u2066\u2069\u200b{n}",
        "bad\udcff{n}.jpg",
        "\x1b[2J{n}\r\n\t",
        "nul\0{n}",
        "x" * 300 + "{n}",
        "ــ مرحبا {n}",
        "' OR 1=1; DROP TABLE verdicts; -- {n}",
        "%00%0d%0aSet-Cookie:{n}",
        "&lt;script&gt;{n}",
        "<style>*{{display:none}}</style>{n}",
        "<meta http-equiv=refresh content=0;url=//evil.example>{n}",
        "<form action=//evil.example><button>{n}</button></form>",
    ]
    return [scripts[n % len(scripts)].format(n=n) for n in range(100)]


def test_a_hundred_hostile_names_and_comments_do_nothing(small_store, alone, page):
    texts = hostile_texts()
    names = fill(small_store, flagged=100, names=texts)
    for text, name in zip(texts, names, strict=True):
        small_store.verdicts.comment("reviewer" + text, name, text)
    visitor = page(alone).sign_in("lead")
    seen = 0
    for number in range(1, 101):
        visitor.go(f"/task/{number}")
        assert visitor.page.locator("main form#decide button").count() == 4
        assert visitor.page.locator("nav a").count() == 5
        seen += visitor.page.locator("#comments li").count()
    for screen in ("/", "/audit", "/dashboard", "/settings"):
        visitor.go(screen)
        assert visitor.page.locator("nav a").count() == 5
    visitor.page.wait_for_load_state("networkidle")
    assert seen == 100
    assert visitor.problems == []
    assert all(url.startswith(alone) for url in visitor.requests)
    assert not re.search("[\u202e\u2066\u200b\udcff\x1b\0]", visitor.page.content())


def test_the_policy_stops_a_script_that_got_into_a_page(small_store, alone, page):
    visitor = page(alone).sign_in("lead")
    visitor.page.evaluate(
        "const made = document.createElement('script'); made.textContent = 'window.ran = 1';"
        "document.body.append(made)"
    )
    assert visitor.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in problem for problem in visitor.problems)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_serious_fault_and_nothing_sticks_out(small_store, served, page, width, scheme):
    """On every screen, with all that can stand on it: filters, decisions, comments, suggestions, errors."""
    fill(small_store, flagged=6, clear=2)
    small_store.settings.set("test", {"promises": {"firearms": PROMISE}})
    admin = next(user for user in small_store.users.all() if user.name == "admin")
    small_store.verdicts.comment("lead", small_store.tasks.get(2).verdict_id, "is it one?")
    small_store.tasks.hold(admin, 2, 60)
    small_store.tasks.decide(admin, [2], "reject", "it is")
    small_store.keys.create("admin", "uploads")
    url = served(review_app(small_store, live=lambda: {"images in the service": 3}, plans=Planner()))
    invited = f"/join/{small_store.users.invite('admin', 'lead')}"
    visitor = page(url, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    faults = {}
    shown = ["/?order=newest&low=0.1", "/task/2", "/audit?verify=true&actor=admin", "/nothing"]
    for screen in ("/sign-in", invited, *SCREENS, *shown, "help"):
        if screen == SCREENS[0]:
            visitor.sign_in("admin")
        visitor.go("/task/1" if screen == "help" else screen)
        if screen == "help":
            visitor.page.evaluate("document.getElementById('help').showModal()")
        for summary in visitor.page.query_selector_all("details:not([open]) summary"):
            summary.click()
        visitor.page.add_script_tag(path=AXE)
        found = visitor.page.evaluate("axe.run()")
        faults[screen] = [
            (fault["id"], fault["nodes"][0]["html"][:200])
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
        wide = visitor.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{screen} is {wide} pixels too wide"
        if width == 390 and screen in SCREENS:
            lines = "new Set([...document.querySelectorAll('{}')].map(one => one.offsetTop)).size"
            assert visitor.page.evaluate(lines.format("nav a")) == 1
            assert visitor.page.evaluate(lines.format("#decide button[name=decision]")) <= 1
    assert all(not found for found in faults.values()), faults
