"""Services of planted networks on free ports, and images whose right verdict is known."""

import io
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
from PIL import Image
from planted import PlantedEngine, planted_bundle

from poolsieve.schemes import make_scheme
from poolsieve.schemes.planted import planted_pixels
from poolsieve.serving.policies import Policy
from poolsieve.serving.running import listen, make_server
from poolsieve.serving.service import Options, Service
from poolsieve.store import Store

PATIENT = 60_000
"""A deadline in milliseconds that is met on a busy machine too."""


def png(bad=False, serial=0):
    """The bytes of an image that the planted networks judge rightly."""
    stream = io.BytesIO()
    Image.fromarray(planted_pixels([bad], [serial])[0]).save(stream, "PNG")
    return stream.getvalue()


def planted_policy(name="planted", *, scheme="individual", engine=None, seed=7, **parameters):
    bundle = planted_bundle()
    bundle.name = name
    made = make_scheme(scheme, bundle.config.pool_sizes, **parameters)
    return Policy(name, bundle, engine or PlantedEngine(), made, seed=seed)


class Served:
    """A service that runs on a thread of its own."""

    def __init__(self, service, server, port, store):
        self.service, self.server, self.port, self.store = service, server, port, store
        self.address = f"http://127.0.0.1:{port}"
        self.key, self.text = store.keys.create("test", "test key")

    def new_key(self, **settings):
        return store_key(self.store, **settings)

    def client(self, text=None, **settings):
        headers = {"Authorization": f"Bearer {text or self.text}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=120, trust_env=False, **settings)

    def moderate(self, images, *, client=None, deadline_ms=PATIENT, **fields):
        files = [("image", (f"{number}.png", data)) for number, data in enumerate(images)]
        with client or self.client() as opened:
            return opened.post("/v1/moderate", files=files, data={"deadline_ms": str(deadline_ms), **fields})


def store_key(store, **settings):
    return store.keys.create("test", "another key", **settings)


@contextmanager
def serving(store_url, *, policies=None, options=None, limits=None, data=None, holder="test", now=time.time):
    """A running service; ends well, or the test fails."""
    policies = policies or [planted_policy()]
    options = options or Options()
    options = replace(options, data=Path(data or options.data), limits=limits or options.limits, seed=3)
    listening = listen("127.0.0.1", 0)
    with Store(store_url, now=now) as store:
        service = Service({policy.name: policy for policy in policies}, store, options, holder=holder)
        server = make_server(service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            served = Served(service, server, listening.getsockname()[1], store)
            wait_until(lambda: server.started or not thread.is_alive())
            assert thread.is_alive(), "the service could not start"
            yield served
        finally:
            server.should_exit = True
            thread.join(120)
            assert not thread.is_alive(), "the service did not end"


def wait_until(condition, seconds=90):
    """Wait for a condition, looking often; the limit is only there for what never comes."""
    waiting = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        waiting.wait(0.02)
    raise AssertionError(f"it did not come true in {seconds} seconds")
