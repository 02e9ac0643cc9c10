"""Jobs: manifests, archives, idempotency, cancelling, and kills."""

import io
import json
import random
import tarfile
import threading
import time
import zipfile
from contextlib import suppress

import boto3
import httpx
import pytest
from processes import planted_process
from s3_server import CREDENTIALS, running_server
from served import planted_policy, png, serving, wait_until

from poolsieve.images import locations
from poolsieve.serving.places import Prefixes
from poolsieve.serving.service import Options
from poolsieve.store import Store


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.png").write_bytes(png(number % 10 == 0, number))
    return folder


def finished(client, job_id):
    def over():
        return client.get(f"/v1/jobs/{job_id}").json()["state"] in ("done", "failed", "cancelled")

    wait_until(over)
    return client.get(f"/v1/jobs/{job_id}").json()


def all_verdicts(client, job_id, limit=7):
    after, found = -1, []
    while True:
        page = client.get(f"/v1/jobs/{job_id}/verdicts", params={"after": after, "limit": limit})
        if not page.text:
            return found
        found += [json.loads(line) for line in page.text.splitlines()]
        after = int(page.headers["X-Next-After"])


def test_manifests_in_every_form(store_url, tmp_path, pictures):
    names = [f"{number}.png" for number in range(30)]
    table = "file,label\n" + "".join(f"{name},x\n" for name in names)
    lines = "".join(json.dumps({"path": str(pictures / name)}) + "\n" for name in names)
    bodies = [
        {"json": {"paths": [*names[:29], "missing.png"], "policies": ["planted"]}},
        {"content": table.encode(), "headers": {"Content-Type": "text/csv"}},
        {"content": lines.encode(), "headers": {"Content-Type": "application/x-ndjson"}},
        {"files": {"manifest": ("list.csv", table.encode())}, "data": {"policies": "planted"}},
    ]
    with (
        serving(store_url, data=tmp_path / "data", options=Options(prefixes=[pictures])) as served,
        served.client() as client,
    ):
        for number, body in enumerate(bodies):
            made = client.post("/v1/jobs", **body)
            assert made.status_code == 202, made.text
            job = finished(client, made.json()["id"])
            assert (job["state"], job["total"], job["done"], job["flagged"]) == ("done", 30, 30, 3)
            assert job["errors"] == (number == 0)
            verdicts = all_verdicts(client, job["id"])
            assert [one["position"] for one in verdicts] == list(range(30))
            assert [one["status"] == "flagged" for one in verdicts] == [k % 10 == 0 for k in range(30)]


@pytest.mark.parametrize("form", ["zip", "tar", "gzip", "multipart"])
def test_archives(sqlite_url, tmp_path, form):
    stream = io.BytesIO()
    images = {f"../../{number}.png": png(number == 2, number) for number in range(12)} | {
        "notes.txt": b"text"
    }
    if form in ("zip", "multipart"):
        with zipfile.ZipFile(stream, "w") as archive:
            for name, data in images.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=stream, mode="w:gz" if form == "gzip" else "w") as archive:
            for name, data in images.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    body = stream.getvalue()
    with serving(sqlite_url, data=tmp_path / "data") as served, served.client() as client:
        if form == "multipart":
            made = client.post("/v1/jobs", files={"archive": ("images.zip", body)})
        else:
            kind = {"zip": "application/zip", "tar": "application/x-tar", "gzip": "application/gzip"}[form]
            made = client.post("/v1/jobs", content=body, headers={"Content-Type": kind})
        assert made.status_code == 202, made.text
        job = finished(client, made.json()["id"])
        assert (job["state"], job["total"], job["flagged"]) == ("done", 13, 1)
        verdicts = all_verdicts(client, job["id"])
        assert [one["name"] for one in verdicts] == list(images)
        wait_until(lambda: not list((tmp_path / "data" / "uploads").iterdir()))
        assert (
            client.post(
                "/v1/jobs", content=b"PK nothing", headers={"Content-Type": "application/zip"}
            ).status_code
            == 422
        )


def test_the_same_idempotency_key_50_times_at_once_makes_one_job(store_url, tmp_path, pictures):
    with serving(store_url, data=tmp_path / "data", options=Options(prefixes=[pictures])) as served:
        answers = []

        def post(paths):
            with served.client() as client:
                answer = client.post("/v1/jobs", json={"paths": paths}, headers={"Idempotency-Key": "one"})
                answers.append(answer)

        threads = [threading.Thread(target=post, args=(["1.png", "2.png"],)) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [202] * 50
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert len(served.store.jobs.newest()) == 1
        post(["1.png", "3.png"])
        assert answers[-1].status_code == 409


def test_a_job_is_cancelled(sqlite_url, tmp_path, pictures):
    policy = planted_policy(chunk=10)
    gate, judge = threading.Event(), policy.judge
    policy.judge = lambda images: (gate.wait(90), judge(images))[1]
    with (
        serving(
            sqlite_url, policies=[policy], data=tmp_path / "d", options=Options(prefixes=[pictures])
        ) as served,
        served.client() as client,
    ):
        made = client.post("/v1/jobs", json={"paths": [f"{k}.png" for k in range(30)]}).json()
        cancelled = client.delete(f"/v1/jobs/{made['id']}").json()
        gate.set()
        assert cancelled["state"] == "cancelled"
        wait_until(lambda: client.get(f"/v1/jobs/{made['id']}").json()["state"] == "cancelled")
        other = served.new_key()[1]
        with served.client(other) as stranger:
            assert stranger.delete(f"/v1/jobs/{made['id']}").status_code == 404
            assert stranger.get(f"/v1/jobs/{made['id']}/verdicts").status_code == 404


def test_a_job_survives_kills(sqlite_url, tmp_path):
    """Nothing is lost or twice in the results; for each kill at most one chunk is judged again."""
    images, kills = 3000, 20
    folder, log = tmp_path / "pictures", tmp_path / "log.txt"
    folder.mkdir()
    for number in range(images):
        (folder / f"{number}.png").write_bytes(png(number % 50 == 0, number))
    rng, killed, job_id, owner = random.Random(4), 0, None, None
    before, wasted = 0, []  # lines of the log at the last kill; images that each process had judged in vain
    while True:
        with planted_process(sqlite_url, tmp_path / "data", folder, log) as (process, address, text):
            headers = {"Authorization": f"Bearer {owner or text}"}
            with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=90) as client:
                if job_id is None:
                    owner = text
                    paths = {"paths": [f"{number}.png" for number in range(images)]}
                    job_id = client.post("/v1/jobs", json=paths).json()["id"]
                if killed == kills:
                    job = finished(client, job_id)
                    verdicts = all_verdicts(client, job_id, limit=100)
                    break
                more = rng.randrange(25)
                wait_until(lambda before=before, more=more: _lines(log) >= before + more)
                time.sleep(rng.random() * 0.05)  # somewhere in a chunk: each takes about so long
                process.kill()
                process.wait(60)
                killed += 1
                judged = log.read_text().split() if log.exists() else []
                with Store(sqlite_url) as store:
                    assert store.jobs.get(job_id).done < images, "it was killed before the end"
                    recorded = {one.name for one in store.verdicts.of_job(job_id, limit=images)}
                wasted.append(len(set(judged[before:]) - recorded))
                before = len(judged)
    assert (job["state"], job["done"], job["flagged"], job["errors"]) == ("done", images, 60, 0)
    assert [one["position"] for one in verdicts] == list(range(images))
    judged = log.read_text().split()
    assert len(set(judged)) == images
    assert max(wasted) <= 20 and len(judged) - images == sum(wasted), wasted
    with Store(sqlite_url) as store:
        assert store.audit.verify().whole


def _lines(log):
    return log.read_text().count("\n") if log.exists() else 0


TRAVERSALS = [
    f"{up}{sep}{target}"
    for up in (
        "..",
        "../..",
        "../../../../../../..",
        "....//",
        "%2e%2e",
        "..%2f..",
        "..\\..",
        "/..",
        "./../.",
        "a/../../..",
    )
    for sep in ("/", "//", "/./", "\\")
    for target in (
        "etc/passwd",
        "secret.png",
        "pictures/../secret.png",
        "proc/self/environ",
        "\u002e\u002e/secret.png",
    )
]


def test_200_traversal_strings_escape_nowhere(sqlite_url, tmp_path, pictures):
    assert len(TRAVERSALS) == 200
    secret = tmp_path / "secret.png"
    secret.write_bytes(png(True, 99))
    (pictures / "link.png").symlink_to(secret)
    (pictures / "folder").symlink_to(tmp_path)
    further = [
        "/etc/passwd",
        str(secret),
        "link.png",
        "folder/secret.png",
        "\0",
        "",
        "file:///etc/passwd",
        "~/x",
    ]
    with (
        serving(sqlite_url, data=tmp_path / "data", options=Options(prefixes=[pictures])) as served,
        served.client() as client,
    ):
        made = []
        for number, text in enumerate([*TRAVERSALS, *further]):
            answer = client.post("/v1/jobs", json={"paths": [text]})
            assert answer.status_code in (202, 422), text
            if answer.status_code == 202:  # a name like any other, below the prefix
                made.append((text, answer.json()["id"]))
            url = (f"/v1/jobs/{text}", f"/v1/verdicts/{text}", f"/v1/jobs/{text}/verdicts")[number % 3]
            with suppress(httpx.InvalidURL):
                assert client.get(url).status_code in (404, 405, 307), url
        assert len(made) < len(TRAVERSALS)
        for text, job_id in made:
            job = finished(client, job_id)
            assert (job["flagged"], job["errors"]) == (0, 1), text
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for text in TRAVERSALS:
                archive.writestr(text, png())
        before = {
            path for path in tmp_path.rglob("*") if "data" not in path.parts and "store" not in path.name
        }
        headers = {"Content-Type": "application/zip"}
        job = finished(
            client, client.post("/v1/jobs", content=stream.getvalue(), headers=headers).json()["id"]
        )
        assert (job["state"], job["done"]) == ("done", 200)
        after = {
            path for path in tmp_path.rglob("*") if "data" not in path.parts and "store" not in path.name
        }
        assert before == after


@pytest.fixture
def bucket(monkeypatch):
    with running_server() as address:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        locations._store.cache_clear()
        client = boto3.client("s3")
        for name in ("uploads", "uploads-secret"):
            client.create_bucket(Bucket=name)
        yield lambda name, key, data: client.put_object(Bucket=name, Key=key, Body=data)
        locations._store.cache_clear()


def test_manifests_name_objects_below_prefixes_and_no_others(sqlite_url, tmp_path, pictures, bucket):
    """Beside every object that may be named there are bad images that may not."""
    for number in range(10):
        bucket("uploads", f"served/{number} ü.png", png(number == 3, number))
    for name, key in [
        ("uploads", "secret.png"),
        ("uploads", "served-not/x.png"),
        ("uploads-secret", "x.png"),
    ]:
        bucket(name, key, png(True, 50))
    for key in ("served/../secret.png", "served/./x.png", "served//x.png", "served/%2e%2e/x.png"):
        bucket("uploads", key, png(True, 51))
    options = Options(prefixes=["s3://uploads/served", pictures])
    with serving(sqlite_url, data=tmp_path / "data", options=options) as served, served.client() as client:
        named = [f"s3://uploads/served/{number} ü.png" for number in range(10)]
        made = client.post("/v1/jobs", json={"paths": [*named, "s3://uploads/served/none.png", "0.png"]})
        job = finished(client, made.json()["id"])
        assert (job["state"], job["flagged"], job["errors"]) == ("done", 2, 1)
        tries = [f"{root}{text}" for text in TRAVERSALS for root in ("s3://uploads/served/", "s3://uploads/")]
        tries += [f"s3://{text}" for text in TRAVERSALS]
        tries += ["s3://uploads/secret.png", "s3://uploads/served", "s3://uploads/served/", "s3://uploads"]
        tries += [
            "s3://uploads/served-not/x.png",
            "s3://uploads-secret/x.png",
            "s3://",
            "S3://uploads/served/0",
        ]
        tries += [
            "s3://key:secret@uploads/served/0",
            "s3://uploads/served//x.png",
            "s3://uploads/served/./x.png",
        ]
        tries += [
            "gs://uploads/served/x.png",
            "az://uploads/served/x.png",
            "http://127.0.0.1/uploads/served/x",
        ]
        tries += ["s3://uploads/served/a?versionId=1", "s3://uploads/served/a#b", "s3://uploads/served/a\nb"]
        for text in tries:
            answer = client.post("/v1/jobs", json={"paths": [text]})
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "forbidden_path"), text


@pytest.mark.parametrize("prefix", ["s3://", "s3://bucket/../x", "s3://key:secret@bucket/x", "s3:///x"])
def test_a_prefix_that_is_no_folder_of_a_store_is_told_so(prefix):
    with pytest.raises(ValueError, match="folder"):
        Prefixes([prefix])


def test_manifests_are_refused_without_a_prefix(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served, served.client() as client:
        assert client.post("/v1/jobs", json={"paths": ["a.png"]}).status_code == 422
