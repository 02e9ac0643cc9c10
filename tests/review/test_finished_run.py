"""`poolsieve review` on the result of a finished run."""

import csv
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import boto3
import httpx
import numpy as np
import pytest
from PIL import Image
from review_site import drawn_jpeg
from s3_server import CREDENTIALS, running_server

from poolsieve.distributed import RunFolder, RunSettings
from poolsieve.distributed.listing import ListedImage
from poolsieve.images import locations
from poolsieve.moderation.verdict_files import write_verdicts
from poolsieve.moderation.verdicts import Verdict
from poolsieve.review.finished_run import Judged, open_run, store_path, write_decisions


@pytest.fixture
def run(tmp_path):
    """A folder of ten images, and the table of a run that flagged three of them."""
    import hashlib

    folder = tmp_path / "photos"
    folder.mkdir()
    found = []
    for number in range(10):
        data = drawn_jpeg(number)
        file = folder / f"{number}.jpg"
        file.write_bytes(data)
        flagged = number in (2, 5, 7)
        found.append(
            Verdict(
                *(str(file), hashlib.sha256(data).hexdigest(), "flagged" if flagged else "clear"),
                *(0.5 + number / 20 if flagged else 0.01, "individual", None, number, number // 4),
                *(0.3, None, (), None, "ab" * 32, "glance → test", 0),
            )
        )
    table = tmp_path / "verdicts.csv"
    write_verdicts(found, table)
    return table, folder, found


def opened(run, rate=0.0):
    table, folder, _ = run
    judged = Judged.by_table(table, str(folder))
    return open_run(judged, store_path(table), rate=rate, rng=np.random.default_rng(0))


def in_parts(found, out, source):
    """The same verdicts as a run in parts of three segments has them."""
    settings = RunSettings((str(source),), None, "b", "ab" * 32, "glance", {}, (), 0, chunk=4, segment=1)
    folder = RunFolder(str(out))
    folder.begin(settings)
    for segment in range(3):
        verdicts = found[4 * segment : 4 * segment + 4]
        folder.write_listing(segment, [ListedImage(verdict.path) for verdict in verdicts])
        folder.write_part(segment, verdicts, {})
    folder.finish()
    return out


def test_flagged_images_become_tasks_with_their_pictures(run):
    store, loaded = opened(run)
    with store:
        assert (loaded.tasks, loaded.missing) == (3, 0)
        assert store.tasks.counts() == {"flagged": 3}
        assert len(list(store.verdicts.all())) == 10
        task = store.tasks.get(1)
        assert task.name.endswith("2.jpg")
        assert Image.open(BytesIO(store.images.thumbnail(task.sha256))).size == (320, 240)


def test_clear_images_are_sampled_if_asked_for(run):
    store, loaded = opened(run, rate=1.0)
    with store:
        assert loaded.tasks == 10 and store.tasks.counts() == {"flagged": 3, "sampled": 7}


def test_an_image_that_is_another_now_has_no_picture(run):
    _, folder, _ = run
    (folder / "2.jpg").write_bytes(drawn_jpeg(99))
    (folder / "5.jpg").unlink()
    store, loaded = opened(run)
    with store:
        assert loaded.missing == 2
        assert [store.images.thumbnail(store.tasks.get(n).sha256) is None for n in (1, 2, 3)] == [
            True,
            True,
            False,
        ]


def test_a_review_goes_on_and_that_of_another_table_is_refused(run):
    table, _, found = run
    store, _ = opened(run)
    with store:
        user = store.users.add("you", "long enough", "admin")
        store.tasks.claim(user, 1, 60)
        store.tasks.decide(user, [3], "reject", "=a rifle")
    store, loaded = opened(run)
    with store:
        assert loaded is None and store.tasks.get(3).outcome == "rejected"
        assert write_decisions(store, table.with_name("decisions.csv")) == 1
    with table.with_name("decisions.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["path"][-5:], row["decision"], row["comment"]) for row in rows] == [
        ("7.jpg", "rejected", "'=a rifle")
    ]
    write_verdicts([replace(one, score=0.99) for one in found], table)
    with pytest.raises(ValueError, match="the review of another table"):
        opened(run)


@contextmanager
def reviewing(*given, folder, **environment):
    """What `poolsieve review` says until it waits, and its process."""
    command = [sys.executable, "-m", "poolsieve", "review", *map(str, given), "--sample", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder) as process:
        try:
            said = ""
            while "Ctrl-C" not in said:
                line = process.stdout.readline()
                assert line, "it ended"
                said += line
            yield said, process
        finally:
            process.kill()


@pytest.mark.parametrize("parted", [False, True], ids=["table", "run in parts"])
def test_the_command_serves_the_page_and_writes_every_decision_at_once(run, parted):
    table, folder, found = run
    given = [in_parts(found, table.parent / "run-1", folder)] if parted else [table, folder]
    with reviewing(*given, folder=table.parent) as (said, process):
        address = re.search(r"open (\S+)", said).group(1)
        base = address.rpartition("/enter/")[0]
        with httpx.Client(follow_redirects=True, timeout=60) as visitor:
            assert visitor.get(f"{base}/enter/guess").status_code == 404
            assert visitor.get(base).url.path == "/sign-in"
            text = visitor.get(address).text
            assert text.count('class="card task"') == 3
            assert "no picture" not in said
            token = re.search(r'name="csrf" value="([^"]*)"', text).group(1)
            fields = {"csrf": token, "tasks": ["1", "2"], "decision": "approve"}
            assert visitor.post(f"{base}/decide", data=fields).status_code == 200
        assert len((table.parent / "decisions.csv").read_text().splitlines()) == 3
        process.send_signal(signal.SIGINT)
        assert "2 decisions in" in process.stdout.read()
    assert process.returncode == 0


def test_a_run_in_a_bucket_is_reviewed_in_a_browser(run, page, monkeypatch, tmp_path):
    _, photos, found = run
    with running_server() as server:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server}.items():
            monkeypatch.setenv(name, value)
        locations._store.cache_clear()
        client = boto3.client("s3")
        client.create_bucket(Bucket="uploads")
        for file in photos.iterdir():
            client.put_object(Bucket="uploads", Key=f"in/{file.name}", Body=file.read_bytes())
        there = [replace(one, path=f"s3://uploads/in/{Path(one.path).name}") for one in found]
        in_parts(there, "s3://uploads/run-1", "s3://uploads/in/")
        with reviewing("s3://uploads/run-1", folder=tmp_path) as (said, process):
            assert "3 images to review" in said and "no picture" not in said
            visitor = page(re.search(r"open (\S+)/enter", said).group(1))
            visitor.page.goto(re.search(r"open (\S+)", said).group(1))
            visitor.page.wait_for_load_state("networkidle")
            names = [one.inner_text() for one in visitor.page.query_selector_all(".grid .name")]
            assert sorted(names) == [f"s3://uploads/in/{number}.jpg" for number in (2, 5, 7)]
            shown = "[...document.querySelectorAll('img.picture')].map(one => one.naturalWidth)"
            assert all(width > 0 for width in visitor.page.evaluate(shown))
            assert not [url for url in visitor.requests if "/picture/" in url and "blur=true" not in url]
            for key in ("r", "a"):
                with visitor.page.expect_navigation():
                    visitor.page.keyboard.press(key)
            rows = list(csv.DictReader((tmp_path / "decisions.csv").open(newline="")))
            assert [(row["path"], row["decision"]) for row in rows] == [
                ("s3://uploads/in/7.jpg", "rejected"),
                ("s3://uploads/in/5.jpg", "approved"),
            ]
            assert visitor.problems == []
            process.send_signal(signal.SIGINT)
            assert "2 decisions in" in process.stdout.read()
    locations._store.cache_clear()


def test_a_table_that_is_none_makes_no_store(tmp_path):
    table = tmp_path / "verdicts.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no column"):
        opened((table, tmp_path, []))
    assert not store_path(table).exists()


def test_a_run_in_parts_is_refused_until_it_is_finished_and_a_table_needs_its_images(run):
    table, folder, found = run
    out = in_parts(found, table.parent / "run-1", folder)
    (out / "_SUCCESS").unlink()
    for given, words in ((out, "is not finished"), (table, "name its images"), (folder, "no run")):
        command = [sys.executable, "-m", "poolsieve", "review", str(given)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 2 and words in " ".join(ended.stderr.split())
