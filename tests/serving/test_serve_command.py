"""`poolsieve serve` as one types it, with a bundle that comes with the package."""

import signal
import subprocess
import sys

import httpx
from PIL import Image


def test_the_command_serves_tells_where_and_ends_well(tmp_path):
    command = [sys.executable, "-m", "poolsieve", "serve", "--bundle", "firearms", "--scheme", "individual"]
    command += ["--port", "0", "--data", str(tmp_path / "data"), "--deadline-ms", "60000", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        told = [process.stdout.readline() for _ in range(4)]
        address = told[0].split(" at ")[1].split()[0]
        link, key = told[1].split()[-1], told[2].split()[-1]
        assert told[3].startswith("curl ") and key in told[3]
        assert httpx.get(link, timeout=90, trust_env=False).status_code == 200
        Image.new("RGB", (300, 200), "green").save(tmp_path / "photo.jpg")
        answer = httpx.post(
            f"{address}/v1/moderate",
            files={"image": (tmp_path / "photo.jpg").read_bytes()},
            headers={"Authorization": f"Bearer {key}"},
            timeout=90,
            trust_env=False,
        )
        assert answer.json()["results"][0]["status"] == "clear"
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
