"""An S3 server in a process of its own (moto's), which fails as keys ask it to.

`slow-…` takes a second, `busy-…` is refused twice with 503 and then given, `down-…` is always refused with
503, `secret-…` always with 403. Other keys are served as they are.
"""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "poolsieve-test-key",
    "AWS_SECRET_ACCESS_KEY": "poolsieve-test-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def running_server():
    """Its address, while the block runs."""
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, **CREDENTIALS},
    )
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


def serve():
    import logging

    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto, seen = DomainDispatcherApplication(create_backend_app), Counter()

    def faulty(environ, start_response):
        name = environ["PATH_INFO"].rpartition("/")[2]
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            seen[name] += 1
            if name.startswith("slow-"):
                time.sleep(1)
            if name.startswith("secret-"):
                return refuse(start_response, "403 Forbidden", "AccessDenied")
            if name.startswith("down-") or (name.startswith("busy-") and seen[name] <= 2):
                return refuse(start_response, "503 Slow Down", "SlowDown")
        return moto(environ, start_response)

    def refuse(start_response, status, code):
        start_response(status, [("Content-Type", "application/xml")])
        return [f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()]

    server = make_server("127.0.0.1", 0, faulty, threaded=True)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    threading.Thread(
        target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True
    ).start()  # with whoever began it
    server.serve_forever()


if __name__ == "__main__":
    serve()
