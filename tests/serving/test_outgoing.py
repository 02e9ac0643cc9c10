"""Requests that strangers cause: nothing leaves for private addresses, redirects or names that change."""

import http.server
import ipaddress
import json
import socket
import threading
from contextlib import contextmanager

import pytest
from served import png, serving

from poolsieve.serving import outgoing as outgoing_module
from poolsieve.serving.metrics import Metrics
from poolsieve.serving.outgoing import NotAllowedError, Outgoing, is_public
from poolsieve.serving.service import Options
from poolsieve.serving.webhooks import BACK_OFF, SIGNATURE, Webhooks, verify
from poolsieve.store import Store
from poolsieve.store.deliveries import NewDelivery

PRIVATE = [
    *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.1"),
    *(
        "192.168.0.1",
        "192.168.255.255",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
    ),
    *("240.0.0.1", "255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.1"),
    *("::1", "::", "fe80::1", "fc00::1", "fd12:3456::1", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:192.168.1.1", "::127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::", "2001:0:7f00:1::"),
]
TRIES = [
    *(f"http://[{one}]/" if ":" in one else f"http://{one}/" for one in PRIVATE),
    *("http://localhost/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/"),
    *(
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "ftp://example.org/",
        "http://user@127.0.0.1/",
        "http:///x",
    ),
    *(
        "http://example.org:22/",
        "http://example.org\\@127.0.0.1/",
        "http://127.0.0.1%2f@example.org/",
        "//127.0.0.1/",
    ),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_known(address):
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses_are_known(address):
    assert is_public(ipaddress.ip_address(address))


@contextmanager
def no_connections(monkeypatch):
    """Every attempt to connect is an error of the test."""
    made = []

    def connect(*arguments, **settings):
        made.append(arguments)
        raise AssertionError(f"a connection was made to {arguments}")

    monkeypatch.setattr(outgoing_module.socket, "create_connection", connect)
    yield made
    assert not made


def test_50_tries_and_more_leave_no_request(monkeypatch):
    assert len(TRIES) >= 50
    with no_connections(monkeypatch):
        for url in TRIES:
            with pytest.raises(NotAllowedError):
                Outgoing().request("GET", url)
        for address in PRIVATE:  # a name that has a private address, among public ones too
            found = [(0, 0, 0, "", ("8.8.8.8", 80)), (0, 0, 0, "", (address, 80))]
            with pytest.raises(NotAllowedError, match="private"):
                Outgoing(resolve=lambda *_, found=found, **__: found).request("GET", "http://example.org/")


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers with what it is told to, and remembers what came."""

    def log_message(self, *_):
        pass

    def _answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.server.seen.append((self.path, dict(self.headers), self.rfile.read(length)))
        status, headers, body = self.server.answers.pop(0) if self.server.answers else (200, {}, b"")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815


@contextmanager
def receiver(*answers):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.seen, server.answers = [], list(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server, f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_redirect_is_not_followed():
    with receiver((302, {"Location": "/elsewhere"}, b"")) as (server, host):
        with pytest.raises(NotAllowedError, match="redirect"):
            Outgoing(private_hosts=[host]).request("GET", f"http://{host}/")
        assert [path for path, _, _ in server.seen] == ["/"]


def test_a_name_that_changes_its_address_gains_nothing(monkeypatch):
    """What is checked is what is connected to: the name is resolved once, and connected to by address."""
    asked, connected = [], []

    def resolve(host, port, **_):
        asked.append(host)
        return [(0, 0, 0, "", ("8.8.8.8" if len(asked) == 1 else "127.0.0.1", port))]

    def connect(address, timeout):
        connected.append(address)
        raise OSError("not in a test")

    monkeypatch.setattr(outgoing_module.socket, "create_connection", connect)
    with pytest.raises(OSError, match="not in a test"):
        Outgoing(resolve=resolve).request("GET", "http://rebinding.example/")
    assert (asked, connected) == (["rebinding.example"], [("8.8.8.8", 80)])


def test_answers_are_limited():
    with receiver((200, {}, b"x" * 100_000)) as (_, host), pytest.raises(ValueError, match="more than"):
        Outgoing(private_hosts=[host]).request("GET", f"http://{host}/", most=1000)


def test_only_hosts_on_the_list_are_asked(monkeypatch):
    with no_connections(monkeypatch):
        for url in (
            "http://other.example/",
            "http://good.example.other.example/",
            "http://good.example:8080/",
        ):
            with pytest.raises(NotAllowedError, match="list of allowed"):
                Outgoing(["good.example"]).request("GET", url)


@pytest.fixture
def delivering(tmp_path):
    """A store, and webhooks with a clock that goes when it is told to."""
    now = [1_800_000_000.0]
    with Store(tmp_path / "store.sqlite", now=lambda: now[0]) as store:

        def make(host, **settings):
            return Webhooks(
                *(store, Metrics()),
                **{"secret": b"secret", "private_hosts": [host], "clock": lambda: now[0], **settings},
            )

        yield store, make, now


def test_a_delivery_is_signed_and_tried_five_times_more(delivering):
    store, make, now = delivering
    with receiver(*[(500, {}, b"")] * 6) as (server, host):
        hooks = make(host, url=f"http://{host}/hook")
        store.deliveries.add([NewDelivery("job.finished", f"http://{host}/hook", {"job_id": "x"})])
        for wait in (*BACK_OFF, 1.0):
            (due,) = store.deliveries.claim(5, 1.0)
            hooks.send(due)
            assert not store.deliveries.claim(5, 1.0)
            now[0] += wait
        assert len(server.seen) == 6
        assert store.deliveries.counts() == {"failed": 1}
        path, headers, body = server.seen[0]
        assert path == "/hook" and json.loads(body)["job_id"] == "x"
        told = headers[SIGNATURE]
        assert verify(b"secret", body, told, now=1_800_000_000.0)
        assert not verify(b"other", body, told, now=1_800_000_000.0)
        assert not verify(b"secret", body + b" ", told, now=1_800_000_000.0)
        assert not verify(b"secret", body, told, now=1_800_000_999.0)


def test_a_delivery_that_arrives_the_second_time(delivering):
    store, make, now = delivering
    with receiver((503, {}, b""), (204, {}, b"")) as (server, host):
        hooks = make(host, url=f"http://{host}/hook")
        store.deliveries.add([NewDelivery("job.finished", f"http://{host}/hook", {})])
        hooks.send(store.deliveries.claim(5, 1.0)[0])
        now[0] += BACK_OFF[0]
        hooks.send(store.deliveries.claim(5, 1.0)[0])
        assert store.deliveries.counts() == {"delivered": 1} and len(server.seen) == 2


@pytest.mark.parametrize("answer", [(302, {"Location": "http://127.0.0.1/"}, b"")])
def test_a_webhook_that_redirects_is_given_up(delivering, answer):
    store, make, _ = delivering
    with receiver(answer) as (_, host):
        hooks = make(host, url=f"http://{host}/hook")
        store.deliveries.add([NewDelivery("job.finished", f"http://{host}/hook", {})])
        hooks.send(store.deliveries.claim(5, 1.0)[0])
        assert store.deliveries.counts() == {"failed": 1}


def test_webhooks_need_a_list_and_public_addresses(delivering, monkeypatch):
    store, make, _ = delivering
    with no_connections(monkeypatch):
        hooks = make("-", hosts=["hooks.example", "127.0.0.1"], private_hosts=[])
        with pytest.raises(NotAllowedError):
            hooks.check("https://elsewhere.example/")
        hooks.check("https://hooks.example/")
        store.deliveries.add([NewDelivery("job.finished", "http://127.0.0.1/", {})])
        hooks.send(store.deliveries.claim(5, 1.0)[0])
        assert store.deliveries.counts() == {"failed": 1}
        with pytest.raises(NotAllowedError):
            make("-", private_hosts=[]).check("https://hooks.example/")


def test_flags_and_finished_jobs_are_told(tmp_path):
    with receiver() as (server, host):
        options = Options(webhook=f"http://{host}/hook", private_hosts=[host], prefixes=[tmp_path])
        (tmp_path / "a.png").write_bytes(png(True))
        url = f"sqlite:///{tmp_path / 'store.sqlite'}"
        with serving(url, options=options, data=tmp_path / "data") as served, served.client() as client:
            own = f"http://{host}/own"
            made = client.post("/v1/jobs", json={"paths": ["a.png"], "webhook": own})
            assert made.status_code == 202
            from served import wait_until

            wait_until(lambda: len(server.seen) == 3)
            assert (
                client.post("/v1/jobs", json={"paths": ["a.png"], "webhook": "http://10.0.0.1/"}).status_code
                == 422
            )
        secret = (tmp_path / "data" / "webhook-secret").read_bytes()
        told = sorted((json.loads(body)["event"], path) for path, _, body in server.seen)
        assert told == [("job.finished", "/hook"), ("job.finished", "/own"), ("verdict.flagged", "/hook")]
        for _, headers, body in server.seen:
            stamp = int(headers[SIGNATURE].split(",")[0][2:])
            assert verify(secret, body, headers[SIGNATURE], now=stamp)


def test_images_at_urls_are_fetched_only_if_asked_for(tmp_path):
    with receiver((200, {}, png(True)), (404, {}, b""), (200, {}, b"no image")) as (_, host):
        url = f"sqlite:///{tmp_path / 'store.sqlite'}"
        images = {"images": [{"url": f"http://{host}/{k}.png"} for k in range(3)], "deadline_ms": 60_000}
        with serving(url, data=tmp_path / "data") as served, served.client() as client:
            assert client.post("/v1/moderate", json=images).status_code == 422
        options = Options(fetch_urls=True, private_hosts=[host])
        with serving(url, data=tmp_path / "data", options=options) as served, served.client() as client:
            found = client.post("/v1/moderate", json=images).json()["results"]
            assert sorted(one["status"] for one in found) == ["error", "error", "flagged"]
            private = {"images": [{"url": "http://127.0.0.1:1/x.png"}, {"url": "http://[::1]/"}]}
            told = client.post("/v1/moderate", json=private).json()["results"]
            assert all("not fetched" in one["error"] for one in told)


def test_a_name_that_is_never_resolved_keeps_nobody_waiting(tmp_path):
    resolved = threading.Event()
    url, names = f"sqlite:///{tmp_path / 'store.sqlite'}", [f"http://{k}.example/" for k in range(20)]
    with serving(url, data=tmp_path, options=Options(fetch_urls=True)) as served, served.client() as client:
        served.service.outgoing._resolve = lambda *_, **__: resolved.wait(90) and []
        try:
            images = {"images": [{"url": name} for name in names], "deadline_ms": 200}
            answer = client.post("/v1/moderate", json=images)
            assert not resolved.is_set()
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "deadline")
        finally:
            resolved.set()


def test_the_resolver_is_the_systems():
    assert Outgoing()._resolve is socket.getaddrinfo
