"""Who comes in: keys on every route, bodies within limits, slow clients, and the end of the process."""

import logging
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from processes import planted_process
from served import PATIENT, png, serving, wait_until

from poolsieve.serving.limits import Limits
from poolsieve.serving.running import SeldomSame
from poolsieve.serving.service_application import create_app
from poolsieve.store.keys import SCOPES

ROUTES = {
    ("POST", "/v1/moderate"): "moderate",
    ("POST", "/v1/jobs"): "jobs",
    ("GET", "/v1/jobs/" + "0" * 32): "jobs",
    ("GET", "/v1/jobs/" + "0" * 32 + "/verdicts"): "jobs",
    ("DELETE", "/v1/jobs/" + "0" * 32): "jobs",
    ("GET", "/v1/verdicts/" + "0" * 32): "verdicts",
    ("POST", "/v1/verdicts/" + "0" * 32 + "/decision"): "decisions",
    ("POST", "/v1/rekognition/detect-moderation-labels"): "moderate",
    ("GET", "/metrics"): "metrics",
}
OPEN = {"/healthz", "/readyz", "/docs", "/docs/oauth2-redirect", "/openapi.json"}


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


def test_no_route_answers_without_the_right_key(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served:
        known = {path.replace("0" * 32, "{}") for _, path in ROUTES}
        app = create_app(served.service)
        for path in app.openapi()["paths"]:
            shown = path.replace("{job_id}", "{}").replace("{verdict_id}", "{}")
            assert shown in known or shown in OPEN, f"{path} is not in this test"
        revoked = served.new_key()
        served.store.keys.revoke("test", revoked[0].id)
        expired = served.new_key(expires_at=time.time() - 1)[1]
        right = served.text
        wrong = [
            *("x", "poolsieve", "poolsieve__", right[:-1], right + "x", right.upper(), right[::-1]),
            *(f"poolsieve_{served.key.id}_", f"poolsieve_{served.key.id}_wrong", "a" * 10_000, "\xff\xfe"),
            *(revoked[1], expired),
        ]
        with httpx.Client(base_url=served.address, timeout=90, trust_env=False) as client:
            for (method, path), scope in ROUTES.items():
                assert client.request(method, path).status_code == 401, path
                for text in wrong:
                    headers = {"Authorization": f"Bearer {text}".encode("latin-1")}
                    assert client.request(method, path, headers=headers).status_code == 401, (path, text)
                others = served.new_key(scopes=[one for one in SCOPES if one != scope])[1]
                headers = {"Authorization": f"Bearer {others}"}
                assert client.request(method, path, headers=headers).status_code == 403, path


def test_a_revoked_key_stops_working(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served:
        key, text = served.new_key()
        with served.client(text) as client:
            assert client.get("/metrics").status_code == 200
            served.store.keys.revoke("test", key.id)
            wait_until(lambda: client.get("/metrics").status_code == 401)


def test_health_and_docs_need_no_key(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served:

        def get(path):
            return httpx.get(served.address + path, timeout=90, trust_env=False)

        assert get("/healthz").json() == {"status": "ok"}
        assert get("/readyz").json() == {"status": "ready", "policies": ["planted"]}
        page = get("/docs")
        assert page.status_code == 200 and "//" not in page.text
        for part in re.findall(r'(?:src|href)="([^"]+)"', page.text):
            assert get(part).status_code == 200, f"{part} of /docs does not come from the service"
        served.service.draining = True
        assert get("/readyz").status_code == 503


def test_what_there_is_not_is_refused_like_all_else(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path) as served:
        for method, path, status, code in (
            ("GET", "/v1/nothing", 404, "not_found"),
            ("GET", "/v1/moderate", 405, "method_not_allowed"),
        ):
            answer = httpx.request(method, served.address + path, timeout=90, trust_env=False)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
            assert "/docs" in answer.json()["error"]["message"]
            assert status != 405 or answer.headers["Allow"] == "POST"


def send(served, data, *, finish=True):
    """Raw bytes to the service; what it answers until it closes, or the status line comes."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=90) as raw:
        try:
            for part in data:
                raw.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return raw.recv(65536).split(b"\r\n")[0] if finish else b""


def test_bodies_that_are_too_large_are_refused_and_not_held(sqlite_url, tmp_path):
    limits = Limits(body_bytes=300_000, image_bytes=100_000)
    with serving(sqlite_url, data=tmp_path, limits=limits) as served:
        head = f"POST /v1/moderate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.text}\r\n".encode()
        claimed = [head + b"Content-Length: 99999999999\r\n\r\n"]
        assert b" 413 " in send(served, claimed)
        held = []

        def endless():
            yield head + b"Transfer-Encoding: chunked\r\n\r\n"
            for _ in range(40):
                yield b"10000\r\n" + b"x" * 65536 + b"\r\n"
                held.append(served.service.unread._held)

        assert b" 413 " in send(served, endless())
        assert max(held) <= limits.body_bytes
        wait_until(lambda: served.service.unread._held == 0)
        with served.client() as client:
            assert client.post("/v1/moderate", content=b"x" * 200_000).status_code == 413
            assert client.post("/v1/moderate?deadline_ms=60000", content=png()).status_code == 200
        assert served.service.judge._batcher.total == 0


def test_slow_and_silent_clients_are_dropped_while_others_are_served(sqlite_url, tmp_path):
    limits = Limits(receive_seconds=1.0, receive_rate=1000, unread_requests=5)
    with serving(sqlite_url, data=tmp_path, limits=limits) as served:
        head = f"POST /v1/moderate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.text}\r\n".encode()
        openings = [b"", b"POST /v1/mod", head, head + b"Content-Length: 1000\r\n\r\nabc"]
        clients = [socket.create_connection(("127.0.0.1", served.port), timeout=90) for _ in range(40)]
        for number, client in enumerate(clients):
            client.sendall(openings[number % 4])
        stop = threading.Event()

        def trickle():
            while not stop.wait(0.05):
                for number, client in enumerate(clients):
                    if number % 4 == 3:
                        with suppress(OSError):
                            client.sendall(b"x")

        trickling = threading.Thread(target=trickle)
        trickling.start()
        try:
            for number in range(5):
                assert served.moderate([png(number == 1, number)]).status_code == 200
            for client in clients:  # each is closed by the service, whatever it does
                try:
                    while client.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
        finally:
            stop.set()
            trickling.join()
            for client in clients:
                client.close()
        wait_until(lambda: served.service.judge._batcher.total == 0)
        assert not served.service.judge._batcher.coming
        assert served.service.door.dropped >= 40
        assert served.service.unread._held == 0


def test_who_finds_no_room_is_told_at_once_whatever_it_sends(sqlite_url, tmp_path):
    with serving(sqlite_url, data=tmp_path, limits=Limits(connections=3, receive_seconds=60.0)) as served:
        door = served.service.door
        holding = [socket.create_connection(("127.0.0.1", served.port), timeout=90) for _ in range(3)]
        wait_until(lambda: len(door.connections) == 3)
        for sent in (b"", b"POST /v1/moderate HTTP/1.1\r\nHost: x\r\n" + b"Content-Length: 2000000\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", served.port), timeout=90) as client:
                with suppress(OSError):  # it may be gone before all of it is sent
                    client.sendall(sent + sent[:1] * 2_000_000)
                answer = b"".join(iter(lambda client=client: client.recv(65536), b""))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in head
            assert int(re.search(rb"Content-Length: (\d+)", head)[1]) == len(body)
        with socket.create_connection(("127.0.0.1", served.port), timeout=90) as silent:
            while silent.recv(65536):
                pass
            wait_until(lambda: not door.turned_away)  # also who neither leaves nor says anything
        assert len(door.connections) == 3
        for client in holding:
            client.close()
        wait_until(lambda: not door.connections)
        assert served.moderate([png()]).status_code == 200


def test_the_log_says_the_same_once_in_a_while():
    now = [0.0]
    seldom = SeldomSame(10.0, lambda: now[0])

    def passes(text):
        return seldom.filter(logging.makeLogRecord({"msg": text}))

    assert passes("full") and not passes("full")
    now[0] = 9.9
    assert not passes("full")
    now[0] = 10.1
    assert passes("full") and not passes("full")
    assert passes("other") and passes("full")


def test_the_slowest_are_dropped_first_where_there_are_too_many():
    from poolsieve.serving.connections import Door

    class Connection:
        def __init__(self, begun, speed):
            self.begun, self.speed, self.transport, self.gone = begun, speed, self, False

        def overdue(self, now, limits):
            return False

        def read_again(self):
            pass

        def rate(self, now):
            return self.speed

        def abort(self):
            self.gone = True

    door = Door(Limits(unread_requests=3))
    door.connections = {Connection(0.0, speed) for speed in range(10)} | {
        Connection(99.5, 0),
        Connection(None, 0),
    }
    door.sweep(100.0)
    dropped = {one.speed for one in door.connections if one.gone}
    assert dropped == set(range(7)) and sum(one.gone for one in door.connections) == 7


def test_all_who_came_before_sigterm_are_answered(sqlite_url, tmp_path):
    data, log = tmp_path / "data", tmp_path / "log"
    with planted_process(sqlite_url, data, tmp_path, log) as (process, address, text), ExitStack() as stack:
        port = int(address.rpartition(":")[2])
        clients = []
        for number in range(200):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
            body = png(number % 2 == 0, number)
            head = f"POST /v1/moderate?deadline_ms={PATIENT} HTTP/1.1\r\nHost: x\r\n"
            head += f"Authorization: Bearer {text}\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            clients.append(client)
        process.send_signal(signal.SIGTERM)
        for number, client in enumerate(clients):
            answer = b"".join(iter(lambda client=client: client.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
            assert (b'"status":"flagged"' in answer) == (number % 2 == 0)
        assert process.wait(90) == 0
