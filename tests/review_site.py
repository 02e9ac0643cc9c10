"""A review page for tests: with drawn pictures, called directly or served to a real browser."""

import io
import re
import threading
import time
import warnings
from functools import cache
from pathlib import Path

import pytest
import uvicorn
from argon2 import PasswordHasher
from PIL import Image, ImageDraw
from sqlalchemy import insert
from store_rows import chunk_record, verdict_record

from poolsieve.review import review_app
from poolsieve.store import ROLES, Store
from poolsieve.store.schema import users

PASSWORD = "long enough to sign in"
CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def drawn_jpeg(number):
    """A picture whose colours tell whether it was blurred or made grey."""
    picture = Image.new("RGB", (320, 240), (255, 40 + number % 200, 0))
    drawing = ImageDraw.Draw(picture)
    for x in range(0, 320, 20):
        drawing.line((x, 0, x, 240), fill=(0, 0, 255), width=8)
    drawing.text((10, 10), str(number), fill="white")
    buffer = io.BytesIO()
    picture.save(buffer, format="jpeg")
    return buffer.getvalue()


def fill(store, flagged=12, clear=0, names=None, **changes):
    """Flagged images, and clear ones that are all sampled; returns the public names of their verdicts."""
    store.settings.set("test", {"sampling_rate": 1.0 if clear else 0.0})
    kinds = ["flagged"] * flagged + ["clear"] * clear
    records = [
        verdict_record(
            number,
            kind,
            score=0.6 + number / 1000 if kind == "flagged" else 0.02,
            thumbnail=lambda number=number: drawn_jpeg(number),
            **({} if names is None else {"name": names[number]}),
            **changes,
        )
        for number, kind in enumerate(kinds)
    ]
    return store.verdicts.record([chunk_record(records, capacity=64)])[0]


@cache
def _hashed_password():
    return PasswordHasher(time_cost=1, memory_cost=1024).hash(PASSWORD)  # many tests sign in


def add_people(store, *names):
    """One user for each role, named like it, or with these names as reviewers; all have the same password."""
    wanted = dict.fromkeys(names, "reviewer") or {role: role for role in ROLES}
    rows = [
        {
            "name": name,
            "role": role,
            "password": _hashed_password(),
            "wellness": {},
            "failures": 0,
            "created_at": 0,
        }
        for name, role in wanted.items()
    ]
    with store.database.writing() as connection:
        connection.execute(insert(users), rows)
    return {user.name: user for user in store.users.all()}


@pytest.fixture
def store(tmp_path, clock):
    """A store in SQLite with the test's clock: pages do not depend on the database."""
    with Store(tmp_path / "store.sqlite", now=clock) as opened:
        yield opened


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it recommends a successor of httpx that is not out yet
    from starlette.testclient import TestClient


class Client(TestClient):
    """Somebody at the page, without a browser."""

    def token(self, place="/"):
        return re.search(r'name="csrf" value="([^"]*)"', self.get(place).text).group(1)

    def submit(self, place, **fields):
        return self.post(place, data={"csrf": self.token(), **fields})

    def sign_in(self, name, password=PASSWORD):
        csrf = self.token("/sign-in")
        return self.post("/sign-in", data={"csrf": csrf, "name": name, "password": password})


@pytest.fixture
def client(store):
    """Makes people at the page: `client("lead")` has signed in, `client()` has not."""
    app = review_app(store)
    made = []

    def make(name=None):
        one = Client(app)
        made.append(one)
        if name is not None:
            assert one.sign_in(name).status_code == 200
        return one

    yield make
    for one in made:
        one.close()


class Served:
    """An application on a port of its own."""

    def __init__(self, app):
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        limit = time.monotonic() + 60
        while not self._server.started:
            if time.monotonic() > limit:
                raise RuntimeError("the server did not start within a minute")
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def stop(self):
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def served():
    """Serves applications until the test ends."""
    running = []

    def serve(app):
        running.append(Served(app))
        return running[-1].url

    yield serve
    for one in running:
        one.stop()


@pytest.fixture
def small_store(tmp_path):
    """A store in SQLite with everybody in it, for what does not depend on the database."""
    with Store(tmp_path / "review.sqlite") as opened:
        add_people(opened)
        yield opened


@pytest.fixture
def alone(small_store, served):
    """The URL of a review page on the small store."""
    return served(review_app(small_store))


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, never one of Playwright's own."""
    if not CHROMIUM.exists():
        pytest.skip(f"NO BROWSER: {CHROMIUM} is missing, so no page is tested in one; run `make browser`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_OPTIONS)
        yield started
        started.close()


class Visitor:
    """Somebody with a browser of their own, whose pages must not break the content security policy."""

    def __init__(self, browser, url, **options):
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(30_000)
        self.page = self.context.new_page()
        self.url = url
        self.problems, self.requests = [], []
        self.page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog):
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def go(self, place):
        return self.page.goto(self.url + place)

    def sign_in(self, name):
        self.go("/sign-in")
        self.page.fill("input[name=name]", name)
        self.page.fill("input[name=password]", PASSWORD)
        self.page.click("button.strong")
        self.page.wait_for_selector("nav")
        return self


@pytest.fixture
def page(browser):
    """Makes visitors."""
    made = []

    def visit(url, **options):
        made.append(Visitor(browser, url, **options))
        return made[-1]

    yield visit
    for one in made:
        one.context.close()
