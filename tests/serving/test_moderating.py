"""Images in, verdicts out, over real connections."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from planted import PlantedEngine
from served import PATIENT, planted_policy, png, serving, wait_until
from store_rows import chunk_record, verdict_record

from poolsieve.moderation import Moderator
from poolsieve.serving.limits import Limits
from poolsieve.store import Store


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


def test_a_request_in_each_form(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served, served.client() as client:
        bad, clear = png(True, 1), png(False, 2)
        form = served.moderate([bad, clear]).json()["results"]
        assert [one["status"] for one in form] == ["flagged", "clear"]
        assert form[0]["policies"]["planted"]["decided_by"] == "individual"
        coded = [{"name": "b", "data": base64.b64encode(bad).decode()}, base64.b64encode(clear).decode()]
        answer = client.post("/v1/moderate", json={"images": coded, "deadline_ms": PATIENT}).json()
        assert [(one["name"], one["status"]) for one in answer["results"]] == [
            ("b", "flagged"),
            ("image-1", "clear"),
        ]
        raw = client.post(f"/v1/moderate?deadline_ms={PATIENT}&name=x", content=bad)
        assert [(one["name"], one["status"]) for one in raw.json()["results"]] == [("x", "flagged")]
        identity = raw.json()["results"][0]["policies"]["planted"]["verdict_id"]
        verdict = client.get(f"/v1/verdicts/{identity}").json()
        assert verdict["status"] == "flagged" and verdict["grounds"]["threshold"] == 0.5
        assert "seed" not in str(verdict) and "members" not in str(verdict)
        decided = client.post(
            f"/v1/verdicts/{identity}/decision", json={"decision": "reject", "comment": "so"}
        )
        assert decided.status_code == 200
        assert [one["decision"] for one in served.store.verdicts.decisions(identity)] == ["reject"]


@pytest.mark.parametrize("scheme", ["adaptive", "dorfman", "cascade", "individual"])
def test_verdicts_equal_the_librarys_for_the_same_chunk_and_seed(sqlite_url, tmp_path, scheme):
    policy = planted_policy(scheme=scheme)
    policy.line.knee = min(policy.line.full, 50) if policy.scheme.pools else 1
    seen = []
    judge = policy.judge

    def remembered(images):
        judged = judge(images)
        seen.append((list(images), judged))
        return judged

    policy.judge = remembered
    rng = np.random.default_rng(0)
    images = [png(bool(rng.random() < 0.05), number) for number in range(64)]
    with serving(sqlite_url, policies=[policy], data=tmp_path) as served:
        for start in (0, 14):
            answers = served.moderate(images[start:][:50]).json()["results"]
            expected = [
                "flagged" if one == png(True, start + k) else "clear"
                for k, one in enumerate(images[start:][:50])
            ]
            assert [one["status"] for one in answers] == expected
    assert sum(len(chunk) for chunk, _ in seen) == 100
    for chunk, judged in seen:
        library = Moderator(policy.bundle, policy._networks, judged.scheme, seed=judged.seed)
        run = library.new_run()
        run.chunk, run.position = judged.number, judged.verdicts[0].position
        assert library.judge_chunk(chunk, run) == judged.verdicts


def test_a_damaged_image_among_64_leaves_63_unchanged(sqlite_url, tmp_path):
    policy = planted_policy(scheme="adaptive")
    policy.line.knee = 64
    with serving(sqlite_url, data=tmp_path, policies=[policy]) as served:
        whole = [png(number % 16 == 0, number) for number in range(64)]
        before = served.moderate(whole).json()["results"]
        damaged = [*whole[:31], b"\x89PNG\r\n\x1a\n broken", *whole[32:]]
        after = served.moderate(damaged).json()["results"]
        assert after[31]["status"] == "error" and after[31]["error"]
        told = [
            [(one["status"], one["name"]) for k, one in enumerate(some) if k != 31]
            for some in (before, after)
        ]
        assert told[0] == told[1] and len(told[0]) == 63


def test_the_service_removes_pictures_that_have_expired(sqlite_url, tmp_path):
    now = [1_800_000_000.0]
    with Store(sqlite_url, now=lambda: now[0]) as store:
        store.verdicts.record([chunk_record([verdict_record(0)])])
        assert store.images.thumbnail(f"{0:064x}") is not None
    with serving(sqlite_url, data=tmp_path, now=lambda: now[0]):
        pass
    with Store(sqlite_url) as store:
        assert store.images.thumbnail(f"{0:064x}") is not None
    now[0] += 31 * 86_400
    with serving(sqlite_url, data=tmp_path, now=lambda: now[0]) as served:
        wait_until(lambda: served.store.images.thumbnail(f"{0:064x}") is None)


def test_several_policies_read_an_image_once(sqlite_url, tmp_path):
    policies = [planted_policy("one"), planted_policy("two", scheme="cascade")]
    read = []
    for policy in policies:
        prepare = policy.prepare
        policy.prepare = lambda data, name, prepare=prepare: read.append(name) or prepare(data, name)
    with serving(sqlite_url, policies=policies, data=tmp_path) as served:
        both = served.moderate([png(True)]).json()["results"][0]
        assert set(both["policies"]) == {"one", "two"} and both["status"] == "flagged"
        assert len(read) == 1
        one = served.moderate([png(True)], policies="two").json()["results"][0]
        assert set(one["policies"]) == {"two"}
        assert served.moderate([png()], policies="three").status_code == 422


class Watching(PlantedEngine):
    """Remembers what the glance was given."""

    def __init__(self):
        super().__init__()
        self.given = set()

    def glance(self, images):
        self.given |= {image.tobytes() for image in images}
        return super().glance(images)


def test_a_policy_sees_of_an_image_what_the_library_does_beside_others_too(sqlite_url, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (40, 48, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "large.jpg")  # the planted networks take 8 x 8 pixels
    alone, beside = Watching(), Watching()
    planted_policy("two", scheme="glance", engine=alone).moderator.judge(tmp_path / "large.jpg")
    policies = [planted_policy("one"), planted_policy("two", scheme="glance", engine=beside)]
    with serving(sqlite_url, policies=policies, data=tmp_path) as served:
        assert served.moderate([(tmp_path / "large.jpg").read_bytes()]).status_code == 200
    assert len(alone.given) == 1 and alone.given <= beside.given


def test_thresholds_that_were_applied_hold_for_the_next_chunks(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served:
        assert served.moderate([png(True)]).json()["results"][0]["status"] == "flagged"
        served.store.settings.set("lead", {"thresholds": {"planted": 0.999999}})
        served.service.judge._settings_at = -1e9
        assert served.moderate([png(True)]).json()["results"][0]["status"] == "clear"
        served.store.settings.set("lead", {"thresholds": {}})
        served.service.judge._settings_at = -1e9
        assert served.moderate([png(True)]).json()["results"][0]["status"] == "flagged"


def test_a_scheme_that_decides_by_pools_alone_is_not_served():
    served = "auto, adaptive, cascade, dorfman, early_exit, glance, individual$"
    with pytest.raises(ValueError, match=f"decides by pools alone, .*; serve with {served}"):
        planted_policy(scheme="oneshot")


@pytest.mark.parametrize(
    ("request_settings", "status"),
    [
        ({"content": b""}, 422),
        ({"json": {"images": []}}, 422),
        ({"json": {"images": [{"data": 5}]}}, 422),
        ({"json": {"images": [{"data": "%%%"}]}}, 200),
        ({"json": [1]}, 422),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 422),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 422),
        ({"content": b"--a\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=a"}}, 422),
        ({"json": {"images": ["aGFsbG8="], "deadline_ms": "soon"}}, 422),
        ({"json": {"images": ["aGFsbG8="], "policies": 5}}, 422),
        ({"json": {"images": [{"url": "http://127.0.0.1/x.png"}]}}, 422),
        ({"json": {"images": ["aGFsbG8="] * 65}}, 422),
    ],
)
def test_what_makes_no_sense_is_told_so(sqlite_url, tmp_path, request_settings, status):
    with serving(sqlite_url, data=tmp_path) as served, served.client() as client:
        answer = client.post(f"/v1/moderate?deadline_ms={PATIENT}", **request_settings)
        if status == 200:
            assert answer.json()["results"][0]["status"] == "error"
        else:
            assert answer.status_code == status and answer.json()["error"]["message"]


def test_pools_are_dispatched_at_the_deadline(sqlite_url, tmp_path):
    policy = planted_policy(scheme="adaptive")
    with serving(sqlite_url, policies=[policy], data=tmp_path) as served:
        assert served.moderate([png(True)], deadline_ms=1500).json()["results"][0]["status"] == "flagged"
        with served.client() as client:
            text = client.get("/metrics").text
        assert 'poolsieve_chunks_total{policy="planted",reason="deadline"} 1.0' in text


def test_a_deadline_that_cannot_be_met_and_a_full_queue_are_refused_at_the_door(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path, limits=Limits(room=4)) as served, served.client() as client:
        served.service.judge.policies["planted"].line.times.add(1, 30.0, 1e9)
        late = client.post("/v1/moderate?deadline_ms=1000", content=png())
        assert late.status_code == 503 and late.json()["error"]["code"] == "deadline"
        assert int(late.headers["Retry-After"]) >= 1
    with serving(sqlite_url, data=tmp_path, limits=Limits(room=4)) as served:
        full = served.moderate([png()] * 5)
        assert full.status_code == 503 and full.json()["error"]["code"] == "full"
        assert served.service.judge._batcher.total == 0


def test_a_key_over_its_quota(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served:
        _, text = served.new_key(quota=5)
        with served.client(text) as client:
            url = f"/v1/moderate?deadline_ms={PATIENT}"
            answers = [client.post(url, content=png()).status_code for _ in range(6)]
        assert answers == [200] * 5 + [429]


def test_policies_keep_what_they_learnt_when_the_threshold_changes():
    policy = planted_policy(scheme="adaptive")
    images = [policy.prepare(png(number == 3, number), f"{number}") for number in range(40)]
    first = policy.judge(images)
    policy.apply(None, 0.9)
    second = policy.judge(images)
    assert (first.number, second.number) == (0, 1)
    assert policy.run.totals.images == 80
    assert second.scheme.threshold == 0.9
    assert replace(second.verdicts[3], chunk=0, position=3).status == first.verdicts[3].status
