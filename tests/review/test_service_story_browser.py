"""One story through a running `poolsieve serve`: from the first link to a threshold that the API obeys."""

import io
import json
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager

import httpx
import pytest
from drawn_firearms.images import DRAWN, make_images
from PIL import Image, ImageOps
from review_site import PASSWORD

LONG = 240
"""Seconds after which something never comes."""


@pytest.fixture(scope="module")
def uploads(tmp_path_factory):
    """Names and bytes of 40 images: views of photographs, and drawn firearms, also mirrored."""
    folder = tmp_path_factory.mktemp("uploads")
    files = make_images(folder, images=32)
    for file in [file for file in files if DRAWN in file.name]:
        files.append(file.with_name(f"mirrored-{file.name}"))
        ImageOps.mirror(Image.open(file)).save(files[-1], quality=90)
    assert len(files) == 40
    return {file.name: file.read_bytes() for file in files}


@contextmanager
def served_process(data):
    """The address, the first administrator's link, and a client of the API with the first key."""
    command = [sys.executable, "-m", "poolsieve", "serve", "--bundle", "firearms", "--port", "0"]
    command += ["--data", str(data), "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        told = [process.stdout.readline() for _ in range(4)]
        assert all(told), "the service did not start"
        address, link, key = told[0].split(" at ")[1].split()[0], told[1].split()[-1], told[2].split()[-1]
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=address, headers=headers, timeout=LONG, trust_env=False) as api:
            yield address, link, api
        process.terminate()
        assert process.wait(LONG) == 0
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()


def judged(api, images):
    """Verdicts on images by name; as a job, which no deadline ends however busy the machine is."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in images.items():
            archive.writestr(name, data)
    made = api.post("/v1/jobs", files={"archive": ("images.zip", stream.getvalue())})
    assert made.status_code == 202, made.text
    place = f"/v1/jobs/{made.json()['id']}"
    ends = time.monotonic() + LONG
    while (state := api.get(place).json()["state"]) in ("waiting", "running"):
        assert time.monotonic() < ends, "the job was never done"
        time.sleep(0.1)
    assert state == "done"
    lines = api.get(f"{place}/verdicts", params={"limit": 100}).text.splitlines()
    verdicts = [json.loads(line) for line in lines]
    assert len(verdicts) == len(images)
    return {one["name"]: one for one in verdicts}


def join(visitor, link, name):
    visitor.context.set_default_timeout(1000 * LONG)
    visitor.page.goto(link)
    visitor.page.fill("input[name=name]", name)
    visitor.page.fill("input[name=password]", PASSWORD)
    with visitor.page.expect_navigation():
        visitor.page.click("button.strong")
    visitor.page.wait_for_selector("nav")


def press(visitor, key):
    with visitor.page.expect_navigation():
        visitor.page.keyboard.press(key)


def shown_tasks(visitor):
    return [
        task.get_attribute("data-task") for task in visitor.page.query_selector_all("form .task[data-task]")
    ]


def test_upload_review_audit_and_a_threshold_that_the_next_verdict_obeys(tmp_path, uploads, page):
    with served_process(tmp_path / "data") as (address, link, api):
        pages = f"{address}/review"
        ada = page(pages)
        join(ada, link, "ada")
        ada.go("/settings")
        ada.page.fill("input[name=sampling_percent]", "0")  # only flags, so that their number is known
        with ada.page.expect_navigation():
            ada.page.click("form[action$=organisation] button")
        with ada.page.expect_navigation():
            ada.page.click("form[action$=invite] button")
        ben = page(pages)
        join(ben, ada.page.inner_text("#link"), "ben")

        found = judged(api, uploads)
        flagged = {name: one["score"] for name, one in found.items() if one["status"] == "flagged"}
        assert 11 <= len(flagged) < 40

        ben.go("/")
        ben.page.wait_for_load_state("networkidle")
        names = [shown.inner_text() for shown in ben.page.query_selector_all(".grid .name")]
        assert len(names) == min(12, len(flagged)) and set(names) <= set(flagged)
        pictures = [url for url in ben.requests if "/picture/" in url]
        assert pictures and all("blur=true&grey=true" in url for url in pictures)

        ben.go("/next")
        decided = []
        for number in range(10):
            decided.append(ben.page.url.rsplit("/", 1)[1])
            press(ben, "r" if number % 3 else "a")
        assert len(set(decided)) == 10
        press(ben, "u")
        assert ben.page.url.endswith(f"/task/{decided[-1]}")
        press(ben, "e")
        assert not [url for url in ben.requests if "/picture/" in url and "blur=true" not in url]

        ada.go("/audit?verify=true&actor=ben")
        assert "Whole: none of" in ada.page.inner_text("main")
        told = [row.inner_text() for row in ada.page.query_selector_all("tbody td:nth-child(4)")]
        decisions = ["approve"] * 4 + ["reject"] * 6 + ["undo", "escalate"]
        assert sorted(word for word in told if word in decisions) == sorted(decisions)
        ada.go("/?reason=escalated")
        assert shown_tasks(ada) == [decided[-1]]

        low, high = min(flagged, key=flagged.get), max(flagged, key=flagged.get)
        threshold = round((flagged[low] + flagged[high]) / 2, 6)
        assert flagged[low] < threshold < flagged[high]
        ada.go("/how-well")
        assert "9 decided flags" in ada.page.inner_text("main")
        assert "the plan's promise of a sensitivity of" in ada.page.inner_text("main")
        assert ada.page.inner_text("b.verdict") == "cannot tell yet"
        ada.page.fill("input[name=threshold]", str(threshold))
        with ada.page.expect_navigation():
            ada.page.click("form[action$=threshold] button")
        assert "as was applied here" in ada.page.inner_text("main")
        ends = time.monotonic() + LONG
        while (now := judged(api, {low: uploads[low]})[low])["status"] == "flagged":
            assert time.monotonic() < ends, "the threshold was never applied"
        assert now["status"] == "clear" and now["grounds"]["threshold"] == threshold
        assert judged(api, {high: uploads[high]})[high]["status"] == "flagged"
        ada.go("/audit?action=set&actor=ada")
        assert f"'firearms': {threshold}" in ada.page.inner_text("tbody tr:first-child")
        assert ada.problems == [] and ben.problems == []
