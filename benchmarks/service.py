"""The service beside the library, and under load: ratios of one run on one machine.

    python benchmarks/service.py TABLE [--bundle firearms] [--scheme adaptive] [--parts throughput,load,…]

TABLE has a column `file` (and `split`); its images are sent as they are. The service runs as a process of its
own on a free port of this machine, with SQLite in a temporary folder; clients share the processors with it.
Figures of each part, with what was run, go into benchmarks/results/service.json; those of other parts and
schemes, and earlier runs, stay there.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import itertools
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolsieve.moderation import Moderator

RESULTS = Path(__file__).parent / "results" / "service.json"
PARTS = ("throughput", "load", "overload", "slow", "kills")


@dataclass
class Answers:
    """What clients saw.

    Attributes:
        statuses: By status of HTTP.
        seconds: Of requests that were answered with verdicts.
        worst: Longest time of any request less its deadline.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    worst: float = -1e9

    def add(self, status: int, seconds: float, deadline: float) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        self.worst = max(self.worst, seconds - deadline)
        if status == 200:
            self.seconds.append(seconds)

    def quantile(self, share: float) -> float:
        """Time within which a share of the verdicts came."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def within(self, deadline: float) -> float:
        """Share of all requests that got verdicts in time."""
        return sum(one <= deadline for one in self.seconds) / max(1, self.statuses.total())


class Process:
    """`poolsieve serve` as a process."""

    def __init__(
        self, folder: Path, bundle: str, scheme: str, *, prefix: Path, deadline: float, port: int = 0
    ) -> None:
        arguments = [sys.executable, "-m", "poolsieve", "serve", "--bundle", bundle, "--scheme", scheme]
        arguments += ["--port", str(port), "--data", str(folder), "--prefix", str(prefix)]
        arguments += ["--deadline-ms", str(1000 * deadline)]
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", first)
        assert found, f"the service did not start: {first}"
        self.port = int(found[1])
        key = folder / "benchmark-key"
        if not key.exists():
            for line in self._process.stdout:
                if "API key" in line:
                    key.write_text(line.rpartition(" ")[2].strip())
                    break
        self.key = key.read_text()

    @property
    def megabytes(self) -> float:
        """Memory of the process and of those that decode for it."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        total = 0
        for pid in (self._process.pid, *children):
            with suppress(OSError):
                text = Path(f"/proc/{pid}/status").read_text()
                total += int(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]
        return total / 1024

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end; the exit status."""
        self._process.send_signal(number)
        status = self._process.wait(120)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status


@contextmanager
def service(folder: Path, arguments: argparse.Namespace) -> Iterator[Process]:
    running = Process(
        folder, arguments.bundle, arguments.scheme, prefix=arguments.folder, deadline=arguments.deadline
    )
    try:
        yield running
    finally:
        status = running.stop()
        if status != 0:
            print(f"  the service ended with status {status}")


async def ask(port: int, head: bytes, body: bytes) -> tuple[int, bytes]:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        writer.write(head + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = await reader.read(-1)
    finally:
        writer.close()
    status, _, content = answer.partition(b"\r\n\r\n")
    return int(status.split(b" ", 2)[1]) if status else 0, content


class Clients:
    """Clients of one service.

    Args:
        running: The service.
        images: Bytes of images.
        deadline: Seconds that they allow.
    """

    def __init__(self, running: Process, images: list[bytes], deadline: float) -> None:
        self._port, self._images, self.deadline = running.port, images, deadline
        self._head = (
            f"POST /v1/moderate?deadline_ms={1000 * deadline:g} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {running.key}\r\n"
        ).encode()

    async def one(self, number: int, answers: Answers, count: int = 1) -> None:
        """One request of one or several images."""
        some = [self._images[(number * count + k) % len(self._images)] for k in range(count)]
        head, body = self._head, some[0]
        if count > 1:
            parts = [
                b'--mark\r\nContent-Disposition: form-data; name="image"; filename="x.jpg"\r\n\r\n'
                + one
                + b"\r\n"
                for one in some
            ]
            head, body = (
                head + b"Content-Type: multipart/form-data; boundary=mark\r\n",
                b"".join(parts) + b"--mark--\r\n",
            )
        begin = time.perf_counter()
        try:
            status, _ = await ask(self._port, head, body)
        except OSError:
            status = -1
        answers.add(status, time.perf_counter() - begin, self.deadline)

    async def closed_loop(self, clients: int, seconds: float, count: int) -> Answers:
        """So many clients that each send the next request when they are answered; answers within the time."""
        answers, numbers = Answers(), itertools.count()

        async def work() -> None:
            while True:
                await self.one(next(numbers), answers, count)

        tasks = [asyncio.create_task(work()) for _ in range(clients)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return answers

    async def open_loop(self, rate: float, seconds: float, seed: int = 0) -> Answers:
        """Requests of one image that come at random, whatever becomes of those before."""
        answers, rng = Answers(), random.Random(seed)
        loop, tasks = asyncio.get_running_loop(), set()
        at = begin = loop.time()
        number = 0
        while at < begin + seconds:
            at += rng.expovariate(rate)
            await asyncio.sleep(max(0.0, at - loop.time()))
            tasks.add(asyncio.create_task(self.one(number, answers)))
            number += 1
        await asyncio.gather(*tasks)
        return answers


def metric(running: Process, name: str) -> float:
    """The sum of a metric over its labels."""
    head = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.key}\r\n".encode()
    _, content = asyncio.run(ask(running.port, head, b""))
    lines = [line for line in content.decode().splitlines() if line.startswith((name + "{", name + " "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def read_images(table: Path, most: int) -> list[Path]:
    with table.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row.get("split", "test") == "test"]
    bad = [row for row in rows if row["label"] == "1"]
    good = [row for row in rows if row["label"] != "1"]
    random.Random(0).shuffle(good)
    kept = [*bad[: max(1, most // 100)], *good[: most - max(1, most // 100)]]
    random.Random(1).shuffle(kept)
    return [table.parent / row["file"] for row in kept]


def throughput(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Images in a second of library and service, and their cost."""
    moderator = Moderator.load(arguments.bundle, scheme=arguments.scheme)
    list(moderator.moderate(images[:100]))
    begin = time.perf_counter()
    list(moderator.moderate(images))
    library = len(images) / (time.perf_counter() - begin)
    share = moderator.totals.meter.share
    with service(folder / "throughput", arguments) as running:
        clients = Clients(running, images, 60.0)
        asyncio.run(clients.closed_loop(32, 4.0, 8))
        before = (
            metric(running, "poolsieve_individual_tests_total"),
            metric(running, "poolsieve_images_judged_total"),
        )
        answers = asyncio.run(clients.closed_loop(32, 15.0, 8))
        served = 8 * answers.statuses[200] / 15.0
        tests = metric(running, "poolsieve_individual_tests_total") - before[0]
        judged = metric(running, "poolsieve_images_judged_total") - before[1]
    return {
        "library_images_per_second": library,
        "service_images_per_second": served,
        "library_cost_share": share,
        "service_cost_share": tests / judged,
        "statuses": answers.statuses,
        "throughput_ratio": served / library,  # at least .8
        "cost_ratio": tests / judged / share,  # at most 1.05
    }


def capacity(running: Process, images: list[bytes]) -> float:
    """Requests of one image in a second that the service answers when clients never let it wait."""
    clients = Clients(running, images, 30.0)
    asyncio.run(clients.closed_loop(128, 3.0, 1))
    return asyncio.run(clients.closed_loop(128, 10.0, 1)).statuses[200] / 10.0


def load(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Deadlines at 70% of what the service can do."""
    with service(folder / "load", arguments) as running:
        most = capacity(running, images)
        answers = asyncio.run(Clients(running, images, arguments.deadline).open_loop(0.7 * most, 20.0))
    return {
        "capacity": most,
        "statuses": answers.statuses,
        "share_in_time": answers.within(arguments.deadline),  # at least .99
        "median_seconds": statistics.median(answers.seconds),
        "p99_seconds": answers.quantile(0.99),
    }


async def watched(running: Process, asked: Coroutine[Any, Any, Answers]) -> tuple[Answers, float]:
    """Answers, and the most memory meanwhile."""
    task, peak = asyncio.create_task(asked), 0.0
    while not task.done():
        peak = max(peak, running.megabytes)
        await asyncio.sleep(0.25)
    return await task, peak


def overload(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Three times what it can do, and afterwards; memory is compared by its peaks over the same time."""
    with service(folder / "overload", arguments) as running:
        most = capacity(running, images)
        clients = Clients(running, images, arguments.deadline)
        _, normal = asyncio.run(watched(running, clients.open_loop(0.7 * most, 15.0)))
        answers, peak = asyncio.run(watched(running, clients.open_loop(3 * most, 15.0)))
        after = asyncio.run(clients.open_loop(0.5 * most, 5.0))
    return {
        "capacity": most,
        "statuses": answers.statuses,
        "share_of_capacity_answered": answers.statuses[200] / 15 / most,
        "latest_seconds_after_deadline": answers.worst,  # at most 1
        "normal_megabytes": normal,
        "overload_megabytes": peak,
        "memory_ratio": peak / normal,  # at most 1.2
        "statuses_afterwards": after.statuses,
        "share_in_time_afterwards": after.within(arguments.deadline),
    }


def slow(images: list[bytes], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """p99 of others while 500 clients are silent or send a byte now and then."""
    with service(folder / "slow", arguments) as running:
        most = capacity(running, images)
        clients = Clients(running, images, arguments.deadline)

        async def trickle(number: int, stop: asyncio.Event, dropped: list[float]) -> None:
            begin = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            openings = [b"", b"POST /v1/mod", b"POST /v1/moderate HTTP/1.1\r\nHost: x\r\n"]
            openings.append(clients._head + b"Content-Length: 100000\r\n\r\nabc")
            writer.write(openings[number % 4])
            with suppress(OSError):
                while not stop.is_set():
                    if number % 4:
                        writer.write(b"x")
                    with suppress(TimeoutError):
                        if await asyncio.wait_for(reader.read(1 << 16), 0.5) == b"":
                            break
            dropped.append(time.perf_counter() - begin)
            writer.close()

        async def run(crowd: int) -> tuple[Answers, list[float]]:
            stop, dropped = asyncio.Event(), []  # type: ignore[var-annotated]
            slow_ones = [asyncio.create_task(trickle(number, stop, dropped)) for number in range(crowd)]
            await asyncio.sleep(0.5)
            answers = await clients.open_loop(0.3 * most, 14.0)
            gone = list(dropped)
            stop.set()
            await asyncio.gather(*slow_ones, return_exceptions=True)
            return answers, gone

        alone, _ = asyncio.run(run(0))
        beside, gone = asyncio.run(run(500))
        again, _ = asyncio.run(run(0))
    before = statistics.mean([alone.quantile(0.99), again.quantile(0.99)])
    return {
        "statuses_alone": alone.statuses + again.statuses,
        "statuses_beside": beside.statuses,
        "p99_seconds_alone": before,
        "p99_seconds_beside": beside.quantile(0.99),
        "p99_ratio": beside.quantile(0.99) / before,  # at most 1.5
        "dropped_of_500": len(gone),
        "last_dropped_after_seconds": max(gone, default=0.0),
    }


def kills(files: list[Path], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A job whose process is killed again and again."""
    result: dict[str, Any] = {}
    rng, home = random.Random(0), folder / "kills"
    job, head, total, port = "", b"", len(files), 0
    for number in range(arguments.kills + 1):
        running = Process(
            home, arguments.bundle, arguments.scheme, prefix=arguments.folder, deadline=1.0, port=port
        )
        port = running.port  # whoever comes back at the same address goes on at once
        try:
            head = f"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.key}\r\n".encode()
            if not job:
                body = json.dumps({"paths": [str(file) for file in files]}).encode()
                made = ask(
                    running.port, b"POST /v1/jobs " + head + b"Content-Type: application/json\r\n", body
                )
                job = json.loads(asyncio.run(made)[1])["id"]
            path = f"GET /v1/jobs/{job} ".encode()

            def state(asked: bytes = path + head, port: int = running.port) -> dict[str, Any]:
                return dict(json.loads(asyncio.run(ask(port, asked, b""))[1]))

            if number < arguments.kills:
                done = state()["done"]
                wanted = min(total - 1, done + rng.randrange(1, max(2, total // arguments.kills)))
                while state()["done"] < wanted:
                    time.sleep(rng.random() * 0.05)
                continue
            while state()["state"] == "running":
                time.sleep(0.1)
            found, after = [], -1
            while True:
                page = f"GET /v1/jobs/{job}/verdicts?after={after} ".encode()
                lines = asyncio.run(ask(running.port, page + head, b""))[1].decode().splitlines()
                if not lines:
                    break
                found += [json.loads(line)["position"] for line in lines]
                after = found[-1]
            result = {
                "kills": arguments.kills,
                "job": state(),
                "verdicts": len(found),
                "lost": total - len(set(found)),
                "twice": len(found) - len(set(found)),
            }
        finally:
            running.stop(signal.SIGKILL)
    return result


def keep(part: str, arguments: argparse.Namespace, images: int, figures: dict[str, Any]) -> None:
    """Put the figures of a part beside those that stand in the file, by what was run."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    run = {
        "bundle": arguments.bundle,
        "scheme": arguments.scheme,
        "deadline_seconds": arguments.deadline,
        "images": images,
        "processors": os.cpu_count(),
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    rounded = json.loads(json.dumps(figures), parse_float=lambda text: round(float(text), 4))
    known.setdefault(part, {}).setdefault(arguments.scheme, []).append({"run": run, **rounded})
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    print(part, json.dumps(rounded, indent=1), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--bundle", default="firearms")
    parser.add_argument("--scheme", default="adaptive")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--images", type=int, default=1600)
    parser.add_argument("--deadline", type=float, default=2.0)
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args()
    files = read_images(arguments.table, arguments.images)
    arguments.folder = Path(os.path.commonpath([file.resolve() for file in files]))
    images = [file.read_bytes() for file in files]
    print(f"{len(images)} images, {os.cpu_count()} processors, scheme {arguments.scheme}")
    folder = Path(tempfile.mkdtemp(prefix="poolsieve-service-"))
    try:
        for part in arguments.parts.split(","):
            if part == "kills":
                figures = kills([file.resolve() for file in files], arguments, folder)
            else:
                measure = {"throughput": throughput, "load": load, "overload": overload, "slow": slow}[part]
                figures = measure(images, arguments, folder)
            keep(part, arguments, len(images), figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
