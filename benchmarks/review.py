"""The review page with 100,000 verdicts: server time of every screen; and 20 reviewers on 1,000 tasks.

    python benchmarks/review.py [--verdicts 100000] [--tasks 1000] [--screens FOLDER]

With `--screens` it only takes pictures of the pages for the docs, of what `make demo` makes (needs chromium).
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image

from poolsieve.review import review_app, thumbnail_jpeg
from poolsieve.store import ChunkRecord, Store, User, VerdictRecord

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("tests", "examples")]

SCREENS = ("/", "/task/1", "/audit", "/how-well", "/dashboard", "/settings")
_NOW = 1_795_000_000.0
SCHEME = "glance(bound=0.004) → test(threshold=0.5)"


def fill(store: Store, number: int, pictures: tuple[list[bytes], list[bytes]], days: float = 14.0) -> None:
    """Chunks of 100 over two weeks; 2 in 100 images are flagged, half of the tasks decided.

    Args:
        store: An empty one.
        number: How many images.
        pictures: Of flagged and of clear images.
        days: Since the first.
    """
    rng = np.random.default_rng(0)
    now = store.database.now()
    clock = [now - days * 86_400]
    store.database.now = lambda: clock[0]
    store.settings.set("demo", {"sampling_rate": 0.01, "promises": {"firearms": {"sensitivity": 0.9}}})
    user = store.users.add("mara", "long enough to sign in", "lead")
    for start in range(0, number, 100):
        clock[0] = now - days * 86_400 * (1 - start / number)
        records = []
        for image in range(start, start + 100):
            flagged = bool(rng.random() < 0.02)
            score = float(rng.beta(6, 2) * 0.5 + 0.5) if flagged else float(rng.beta(1, 30) * 0.5)
            grounds = {"prior": round(score**0.5, 3), "threshold": 0.5, "pools": [], "pool_score": None}
            shown = pictures[not flagged]
            jpeg = shown[image % len(shown)]
            records.append(
                VerdictRecord(
                    name=f"upload-{image:06d}.jpg",
                    sha256=f"{image:064x}",
                    status="flagged" if flagged else "clear",
                    score=score,
                    decided_by="individual" if flagged else "glance",
                    grounds=grounds,
                    thumbnail=lambda jpeg=jpeg: jpeg,  # type: ignore[misc]
                )
            )
        cost = float(rng.normal(0.4, 0.02))
        chunk = ChunkRecord("firearms", "ab" * 32, SCHEME, start, records, cost, 1.2, "full", 100)
        store.verdicts.record([chunk])
        held = store.tasks.claim(user, 2, 600)
        for task in held[: int(rng.integers(0, 3))]:
            bad = task.status == "flagged" and task.score is not None and rng.random() < task.score
            store.tasks.decide(user, [task.id], "reject" if bad else "approve")
    store.database.now = lambda: now


def _seeded(place: Path) -> Store:
    """A store whose clock stands still and whose sample is the same whenever it is made."""
    return Store(place, now=lambda: _NOW, rng=np.random.default_rng(1))


def demo_pictures() -> tuple[list[bytes], list[bytes]]:
    """Those of `make demo`: drawn firearms, and crops of packaged photographs."""
    from drawn_firearms.images import DRAWN, make_images

    with tempfile.TemporaryDirectory() as folder:
        files = make_images(Path(folder), images=40, seed=1)
        drawn = [thumbnail_jpeg(Image.open(file)) for file in files if DRAWN in file.name]
        return drawn, [thumbnail_jpeg(Image.open(file)) for file in files if DRAWN not in file.name]


def time_screens(store: Store) -> None:
    from review_site import Client

    visitor = Client(review_app(store))
    visitor.sign_in("mara")
    gc.collect()
    gc.freeze()  # as the commands do
    for screen in SCREENS:
        took = []
        for _ in range(9):
            begun = time.perf_counter(), time.process_time()
            assert visitor.get(screen).status_code == 200
            took.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
        told = [
            f"{name}: median {1000 * median(times):6.1f} ms, worst {1000 * max(times):6.1f} ms"
            for name, times in zip(("clock", "processor"), zip(*took, strict=True), strict=True)
        ]
        print(f"{screen:<12} {'; '.join(told)}")


def race(url: str, tasks: int, reviewers: int = 20) -> None:
    from review_site import add_people
    from store_rows import chunk_record, verdict_record

    with Store(url) as store:
        store.verdicts.record([chunk_record([verdict_record(n) for n in range(tasks)])])
        people = add_people(store, *(f"reviewer {n}" for n in range(reviewers)))
        decided: list[int] = []

        def work(user: User) -> None:
            while held := store.tasks.claim(user, 4, 600):
                for task in held:
                    store.tasks.decide(user, [task.id], "approve")
                    decided.append(task.id)

        begun = time.perf_counter()
        threads = [threading.Thread(target=work, args=(user,)) for user in people.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begun
        whole = store.audit.verify().whole
    twice = len(decided) - len(set(decided))
    kind = url.partition(":")[0]
    print(
        f"{kind}: {len(decided)} of {tasks} tasks decided, {twice} twice, log whole: {whole}, {seconds:.0f} s"
    )


def take_screens(folder: Path) -> None:
    from playwright.sync_api import sync_playwright
    from review_site import CHROMIUM, CHROMIUM_OPTIONS, Served, Visitor

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, _seeded(Path(place) / "s.sqlite") as store:
        fill(store, 20_000, demo_pictures())
        served = Served(review_app(store))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_OPTIONS)
            for width in (1280, 390):
                for scheme in ("light", "dark"):
                    view = {"width": width, "height": 800}
                    visitor = Visitor(browser, served.url, viewport=view, color_scheme=scheme)
                    visitor.sign_in("mara")
                    number = visitor.page.get_attribute("form .task", "data-task")
                    for name, screen in (
                        ("queue", "/"),
                        ("image", f"/task/{number}"),
                        ("how-well", "/how-well"),
                        ("dashboard", "/dashboard"),
                    ):
                        visitor.go(screen)
                        visitor.page.wait_for_load_state("networkidle")
                        visitor.page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
                    visitor.context.close()
            browser.close()
        served.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verdicts", type=int, default=100_000)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--screens", type=Path)
    options = parser.parse_args()
    if options.screens:
        take_screens(options.screens)
        return
    from databases import new_database, postgresql_server

    with tempfile.TemporaryDirectory() as place:
        race(f"sqlite:///{place}/race.sqlite", options.tasks)
        with postgresql_server() as server:
            race(new_database(server), options.tasks)
        with _seeded(Path(place) / "large.sqlite") as store:
            fill(store, options.verdicts, ([b"no picture"], [b"no picture"]))
            time_screens(store)


if __name__ == "__main__":
    main()
