"""Servers with the interfaces of Google's and Azure's object stores, each in a process of its own."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from s3_server import CREDENTIALS, running_server

BUCKET = "uploads"
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""What every azurite has, as its manual says; it opens nothing else."""
LIMIT = 60.0


@contextmanager
def running_store(scheme):
    """Settings by which `scheme` is served on this machine, with a bucket, while the block runs."""
    if scheme == "s3":
        with running_server() as address:
            yield {**CREDENTIALS, "AWS_ENDPOINT_URL": address}
        return
    port = _free_port()
    if scheme == "gs":
        command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--port", str(port), "-M", "-q"]
        command += ["--host", "127.0.0.1", "--default-bucket", BUCKET]
        settings = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}
    else:
        azurite = shutil.which("azurite-blob")
        if azurite is None:
            pytest.skip("az:// IS NOT TESTED: no azurite-blob; npm install -g azurite")
        command = [azurite, "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
        command += ["--disableTelemetry", "--skipApiVersionCheck"]
        settings = {
            "AZURE_STORAGE_ACCOUNT": AZURITE_ACCOUNT,
            "AZURE_STORAGE_KEY": AZURITE_KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}",
        }
    server = subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield settings
    finally:
        server.kill()
        server.wait()


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def _wait_for(port):
    end = time.monotonic() + LIMIT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"nothing listens at port {port}"
            time.sleep(0.05)
