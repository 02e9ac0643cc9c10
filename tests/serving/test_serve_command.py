"""`poolsieve serve` as one types it, with a bundle that comes with the package."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from PIL import Image
from served import wait_until


def all_others_give_way(pid):
    """Threads of a process but its first, and the processes that they started, are nicer than it."""
    others, own = set(), os.getpriority(os.PRIO_PROCESS, pid)
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            others |= {int(task.name), *map(int, (task / "children").read_text().split())}
        nicer = [os.getpriority(os.PRIO_PROCESS, one) > own for one in others - {pid}]
    except OSError:  # one has ended meanwhile
        return False
    return len(nicer) > 2 and all(nicer)


def test_the_command_serves_tells_where_and_ends_well(tmp_path):
    command = [sys.executable, "-m", "poolsieve", "serve", "--bundle", "firearms", "--scheme", "individual"]
    command += ["--port", "0", "--data", str(tmp_path / "data"), "--deadline-ms", "60000", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        told = [process.stdout.readline() for _ in range(4)]
        address = told[0].split(" at ")[1].split()[0]
        link, key = told[1].split()[-1], told[2].split()[-1]
        assert told[3].startswith("curl ") and key in told[3]
        assert os.name != "posix" or (tmp_path / "data").stat().st_mode & 0o077 == 0
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
        if sys.platform == "linux":
            wait_until(lambda: all_others_give_way(process.pid), 30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
